package ioprio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// tree reads the files of a node by the paths that they have on the node.
//
// A captured tree is full of absolute symbolic links ("/lib/systemd/system/k3s.service"), and os.Root refuses those:
// they have to end up inside the tree, as after chroot(2), and never on the host that looks at it.
type tree struct {
	root string // Host.Rootfs
}

func (t tree) readFile(name string) ([]byte, error) {
	name, err := t.local(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// readDir lists a directory in the order of its file names. A directory that does not exist is empty.
func (t tree) readDir(name string) ([]fs.DirEntry, error) {
	name, err := t.local(name)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// local is the path under which this process opens a file of the node.
func (t tree) local(name string) (string, error) {
	if t.root == "/" {
		return name, nil
	}
	name, _, err := evalSymlinks(t.root, name)
	if err != nil {
		return "", err
	}
	return filepath.Join(t.root, name), nil
}
