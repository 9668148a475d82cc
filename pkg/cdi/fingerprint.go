package cdi

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"
)

// sockets are where the driver's daemons may come to listen after the driver was
// described; NVIDIA's toolkit mounts those that exist.
var sockets = []string{"run/nvidia-persistenced", "run/nvidia-fabricmanager", "var/run/nvidia-persistenced", "var/run/nvidia-fabricmanager"}

// settling is how long files must have been left alone before edits made from
// them are kept: an installation may be under way.
const settling = 2 * time.Second

// fingerprint is what the files and directories looked like from which edits
// were made. Reading it costs one stat a file.
type fingerprint map[string]appearance

// appearance is what changes when a file is replaced; of a path that cannot be
// read, why.
type appearance struct {
	dev, ino, rdev uint64
	modified       time.Time
	err            error
}

func fingerprintOf(edits specs.ContainerEdits, driverRoot string) fingerprint {
	paths := map[string]bool{}
	for _, m := range edits.Mounts {
		paths[m.HostPath] = true
		paths[filepath.Dir(m.HostPath)] = true
	}
	for _, n := range edits.DeviceNodes {
		paths[seenPath(n)] = true
	}
	for _, s := range sockets {
		paths[filepath.Join(driverRoot, s)] = true
	}
	out := fingerprint{}
	for p := range paths {
		out[p] = look(p)
	}
	return out
}

// current tells whether everything still looks the same.
func (f fingerprint) current() bool {
	for path, was := range f {
		if look(path) != was {
			return false
		}
	}
	return true
}

// settled tells whether nothing was changed shortly before now.
func (f fingerprint) settled(now time.Time) bool {
	for _, a := range f {
		if now.Sub(a.modified) < settling {
			return false
		}
	}
	return true
}

func look(path string) appearance {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return appearance{err: err}
	}
	a := appearance{dev: uint64(st.Dev), ino: st.Ino, rdev: uint64(st.Rdev)}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR { // opening a device touches its time
		a.modified = time.Unix(st.Mtim.Unix())
	}
	return a
}

// seenPath is where a device node was found.
func seenPath(n *specs.DeviceNode) string {
	if n.HostPath != "" {
		return n.HostPath
	}
	return n.Path
}
