package iopriotest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree is the directory that plays the root file system. Paths are the node's own: "/sys/block". The first error sticks
// until failed takes it, so that a builder reads like what it builds.
type tree struct {
	root string
	veil map[string]bool   // files that cannot be read now: a directory stands in their place
	text map[string]string // what files hold, so that what stays as it is wakes no watch
	err  error
}

func (t *tree) failed() error {
	err := t.err
	t.err = nil
	return err
}

func (t *tree) note(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *tree) at(path string) string { return filepath.Join(t.root, path) }

// inside is a path without the tree's own root; one that is outside is taken as the node's.
func (t *tree) inside(path string) string {
	if path == t.root {
		return "/"
	}
	if rest, ok := strings.CutPrefix(path, t.root+"/"); ok {
		return "/" + rest
	}
	return path
}

func (t *tree) dir(paths ...string) {
	for _, path := range paths {
		t.note(os.MkdirAll(t.at(path), 0o755))
	}
}

// file sets a file's content in one write(2) to the inode that is there, so that a concurrent reader sees the old or the
// new content, and a watch on the file stays. A shorter content is padded before the rest is cut off.
func (t *tree) file(path, content string) {
	if old, ok := t.text[path]; t.veil[path] || ok && old == content {
		return
	}
	t.text[path] = content
	t.dir(filepath.Dir(path))
	f, err := os.OpenFile(t.at(path), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.note(err)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.note(err)
		return
	}
	padded := content
	if more := int(st.Size()) - len(content); more > 0 {
		padded += strings.Repeat("\n", more)
	}
	if _, err := f.WriteAt([]byte(padded), 0); err != nil {
		t.note(err)
	}
	if len(padded) > len(content) {
		t.note(f.Truncate(int64(len(content))))
	}
}

// attrs are files of one line below a directory.
func (t *tree) attrs(dir string, lines map[string]string) {
	for name, line := range lines {
		t.file(filepath.Join(dir, name), line+"\n")
	}
}

// link makes a relative symbolic link as sysfs has them, and its target's directory where that is missing.
func (t *tree) link(path, target string) {
	t.dir(filepath.Dir(path))
	rel, err := filepath.Rel(filepath.Dir(path), target)
	if err != nil {
		t.note(err)
		return
	}
	t.drop(path)
	t.note(os.Symlink(rel, t.at(path)))
}

// raw makes a symbolic link with the text that the node's own processes read.
func (t *tree) raw(path, text string) {
	t.dir(filepath.Dir(path))
	t.drop(path)
	t.note(os.Symlink(text, t.at(path)))
}

func (t *tree) drop(paths ...string) {
	for _, path := range paths {
		for file := range t.text {
			if file == path || strings.HasPrefix(file, path+"/") {
				delete(t.text, file)
			}
		}
		t.note(os.RemoveAll(t.at(path)))
	}
}

// real is the path that symbolic links lead to, without the tree's root.
func (t *tree) real(path string) (string, error) {
	full, err := filepath.EvalSymlinks(t.at(path))
	if err != nil {
		return "", err
	}
	return t.inside(full), nil
}

// hide puts a directory in a file's place: to read it answers an error that is not "does not exist".
func (t *tree) hide(path string) {
	t.veil[path] = true
	delete(t.text, path)
	if err := os.Remove(t.at(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.note(err)
	}
	t.dir(path)
}
