package command

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/cleave-dra/cleave/pkg/simhw/tree"
)

// fileRequest spoils a path, or with no fault makes it right.
type fileRequest struct {
	Path  string      `json:"path"`
	Fault *tree.Fault `json:"fault,omitempty"`
	// For is how long, in Go's form; empty is until it is cleared.
	For string `json:"for,omitempty"`
}

// fileCommands spoil the file tree until the daemon ends.
func fileCommands() []ctlCommand {
	return []ctlCommand{
		{name: "files list", does: "print what is wrong with which files", request: get("/files")},
		{name: "files spoil", arguments: "--path P FAULT [--for TIME]", does: "make something wrong with a file, a link, a device node or a directory", flags: spoilFlags},
		{name: "files clear", arguments: "[--path P]", does: "make one path right again, or all", flags: func(fs *flag.FlagSet) func() (request, error) {
			path := fs.String("path", "", "`path` below the root; empty means all")
			return func() (request, error) { return post("/files", fileRequest{Path: *path}), nil }
		}},
	}
}

func spoilFlags(fs *flag.FlagSet) func() (request, error) {
	path := fs.String("path", "", "`path` below the root, for example dev/nvidia0, proc/devices, sys/bus/pci/devices/0000:3b:00.0/numa_node or sys/class/infiniband/mlx5_0/ports/1/state (required)")
	lasts := fs.Duration("for", 0, "`time` after which it is right by itself; 0 means never")
	var f tree.Fault
	fs.BoolVar(&f.Missing, "missing", false, "it is not there")
	fs.Func("content", "the file has this `text` and a newline; empty means nothing at all", func(s string) error {
		if s != "" {
			s += "\n"
		}
		f.Content = &s
		return nil
	})
	fs.BoolVar(&f.Dangling, "dangling", false, "it is a link to nowhere")
	fs.BoolVar(&f.Unreadable, "unreadable", false, "it is a directory, which cannot be read as a file")
	fs.StringVar(&f.Without, "without", "", "the lines with this `text` are missing, for example nvidia-caps in proc/devices")
	fs.StringVar(&f.Twice, "twice", "", "the lines with this `text` are there twice")
	return func() (request, error) {
		if *path == "" {
			return request{}, errors.New("flag --path is required")
		}
		r := fileRequest{Path: *path, Fault: &f}
		if *lasts != 0 {
			r.For = lasts.String()
		}
		return post("/files", r), nil
	}
}

func (c *control) fileRoutes() {
	c.handle("GET /files", func(*http.Request) (any, error) { return c.files.Faults(), nil })
	c.handle("POST /files", func(r *http.Request) (any, error) {
		var body fileRequest
		if err := decode(r, &body); err != nil {
			return nil, err
		}
		if body.Fault == nil {
			err := c.files.ClearFault(body.Path)
			return c.files.Faults(), err
		}
		var lasts time.Duration
		if body.For != "" {
			var err error
			if lasts, err = time.ParseDuration(body.For); err != nil {
				return nil, fmt.Errorf("decode request: %w", err)
			}
		}
		if err := c.files.SetFault(body.Path, *body.Fault, lasts); err != nil {
			return nil, err
		}
		return c.files.Faults(), nil
	})
}
