package ioprio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// attrSize is a page on every architecture that k3s runs on with 4 KiB pages: what sysfs gives for one attribute at most.
const attrSize = 4096

// readAttr reads a pseudo-file without stat, since its size means nothing, and in one read(2) unless it is longer than a
// page, as a cgroup file with many devices is.
func readAttr(path string) Attr {
	f, err := os.Open(path)
	if err != nil {
		return Attr{Source: path, Err: err}
	}
	defer f.Close()
	buf := make([]byte, attrSize)
	n, err := f.Read(buf)
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the file is empty
		return Attr{Source: path, Err: err}
	}
	buf = buf[:n]
	if n == attrSize {
		rest, err := io.ReadAll(f)
		if err != nil {
			return Attr{Source: path, Err: err}
		}
		buf = append(buf, rest...)
	}
	return Attr{Source: path, Value: strings.TrimSpace(string(buf))}
}

// WriteAttr writes a value to an existing attribute file of the kernel in one write(2). It opens without O_CREATE: with
// it a missing attribute answers EACCES on sysfs, and on a plain folder it would come to life and read back well.
// Success means that the kernel took the bytes, not that it obeyed.
func WriteAttr(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// exists reports whether a file is there; any doubt is an error.
func exists(path string) (bool, error) {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// maxLinks is the kernel's own limit of symbolic links in one path walk (namei.c, MAXSYMLINKS).
const maxLinks = 40

// evalSymlinks follows the symbolic links of a path as a process whose root directory is root would, and never leaves
// root. What does not exist has no links; the second result says whether the whole path exists.
func evalSymlinks(root, path string) (string, bool, error) {
	done, todo, all := "/", strings.Split(path, "/"), true
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		target, err := os.Readlink(filepath.Join(root, next))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = false
			done = next
			continue
		case errors.Is(err, unix.EINVAL): // not a link
			done = next
			continue
		case err != nil:
			return "", false, err
		}
		if links++; links > maxLinks {
			return "", false, fmt.Errorf("%s: too many levels of symbolic links", path)
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return done, all, nil
}
