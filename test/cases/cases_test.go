package cases

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCaseIsTested: each case in the list has a test that names it, or the list
// says why not.
func TestEveryCaseIsTested(t *testing.T) {
	list, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests bytes.Buffer
	root := os.DirFS("../..")
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ([A-Z]+)-([0-9]+) \|.*\| ([^|]+) \|$`)
	rows := row.FindAllStringSubmatch(string(list), -1)
	if len(rows) < 30 {
		t.Fatalf("read %d cases from README.md: has its form changed?", len(rows))
	}
	for _, m := range rows {
		// In the name of a function there is no dash.
		named := bytes.Contains(tests.Bytes(), []byte(m[1]+"-"+m[2])) || bytes.Contains(tests.Bytes(), []byte(m[1]+m[2]))
		later := strings.HasPrefix(m[3], "later: ")
		if m[3] != "yes" && !later {
			t.Errorf("%s-%s: %q is neither yes nor a reason", m[1], m[2], m[3])
		}
		if named == later {
			t.Errorf("%s-%s: the list says %q; a test that names it: %v", m[1], m[2], m[3], named)
		}
	}
}
