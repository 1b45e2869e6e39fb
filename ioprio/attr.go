package ioprio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// attrSize is a page on every architecture that k3s runs on with 4 KiB pages: what sysfs gives for one attribute at most.
const attrSize = 4096

// readAttr reads a pseudo-file without stat, since its size means nothing, and in one read(2) unless it is longer than a
// page, as a cgroup file with many devices is. It calls the kernel itself: os.File would ask seven times for one attribute,
// and a pass reads ten for each disk.
func readAttr(path string) Attr {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return Attr{Source: path, Err: &fs.PathError{Op: "open", Path: path, Err: err}}
	}
	defer unix.Close(fd)
	var text []byte
	buf := make([]byte, attrSize)
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, buf) })
		if err != nil {
			return Attr{Source: path, Err: &fs.PathError{Op: "read", Path: path, Err: err}}
		}
		text = append(text, buf[:n]...)
		if n < attrSize {
			return Attr{Source: path, Value: strings.TrimSpace(string(text))}
		}
	}
}

// retry repeats a call that a signal interrupted; the Go runtime sends them to itself.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// follow is where a symbolic link of sysfs leads: always to a directory below devices, which has no links above it.
func follow(link string) (string, error) {
	target, err := os.Readlink(link)
	switch {
	case errors.Is(err, unix.EINVAL): // not a link
		return link, nil
	case err != nil:
		return "", err
	case !filepath.IsAbs(target):
		target = filepath.Join(filepath.Dir(link), target)
	}
	_, err = os.Lstat(target)
	return target, err
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
