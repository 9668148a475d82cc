package command

import (
	"io"
	"os"
	"strings"
)

// tailBytes bounds what is read of a log file that may be large.
const tailBytes = 8 << 10

// Tail returns the last lines of a file, or nothing if it cannot be read.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

func lastLine(path string) string {
	const width = 100
	line := strings.TrimSpace(Tail(path, 1))
	if strings.HasPrefix(line, "+ ") {
		return ""
	}
	if len(line) > width {
		line = line[:width]
	}
	return line
}
