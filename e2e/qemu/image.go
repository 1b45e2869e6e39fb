package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Image is a bootable system on disk. The root file system is never written: machines work on snapshots.
type Image struct {
	Root   string // ext4, raw
	Kernel string
	Initrd string
}

// Build takes an image from the cache, or builds it there and removes those of older recipes. It needs root, and tells
// the steps of a build to progress.
func Build(ctx context.Context, r Recipe, progress io.Writer) (Image, error) {
	key, err := r.Key()
	if err != nil {
		return Image{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return Image{}, err
	}
	dir := filepath.Join(cache, "image-"+r.Suite+"-"+key)
	unlock, err := lock(filepath.Join(cache, "image.lock"))
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := build(ctx, r, dir, progress); err != nil {
			return Image{}, fmt.Errorf("building the image of %s: %w", r.Suite, err)
		}
		if err := removeOthers(cache, "image-"+r.Suite+"-", dir); err != nil {
			return Image{}, err
		}
	}
	return Image{filepath.Join(dir, "root.ext4"), filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initrd.img")}, nil
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "ioprio-agent")
	return dir, os.MkdirAll(dir, 0o755)
}

// lock keeps two builds from each other's files.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func removeOthers(cache, prefix, keep string) error {
	all, err := filepath.Glob(filepath.Join(cache, prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range all {
		if dir != keep {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// build makes an image beside its place and moves it there when it is whole.
func build(ctx context.Context, r Recipe, dir string, progress io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root, once: run the same with sudo")
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree, files, out := filepath.Join(work, "tree"), filepath.Join(work, "files"), filepath.Join(work, "out")
	if err := errors.Join(writeGuest(files), os.Mkdir(out, 0o755)); err != nil {
		return err
	}
	fmt.Fprintf(progress, "==> image: installing Debian %s with %d packages (some minutes, once)\n", r.Suite, len(r.Packages))
	if err := command(ctx, progress, "mmdebstrap", "mmdebstrap", r.bootstrapArgs(files, tree)...); err != nil {
		return err
	}
	kernel, initrd, err := takeKernel(tree)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "==> image: making the file system\n")
	if err := errors.Join(
		os.Rename(kernel, filepath.Join(out, "vmlinuz")), os.Rename(initrd, filepath.Join(out, "initrd.img")),
		setTimes(ctx, progress, tree),
	); err != nil {
		return err
	}
	root := filepath.Join(out, "root.ext4")
	args := append(mkfsOptions(), "-d", tree, root, fmt.Sprintf("%dM", r.SizeMiB))
	if err := command(ctx, progress, "e2fsprogs", "mke2fs", args...); err != nil {
		return err
	}
	if err := stamp(ctx, root, filepath.Join(work, "stamp")); err != nil {
		return err
	}
	return os.Rename(out, dir)
}

// writeGuest lays out the files for the image.
func writeGuest(dir string) error {
	for _, file := range layout() {
		name, to := file[0], file[1]
		b, err := guest.ReadFile("guest/" + name)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o755)
		if strings.HasSuffix(name, ".service") {
			mode = 0o644
		}
		path := filepath.Join(dir, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, mode)); err != nil {
			return err
		}
	}
	return nil
}

// takeKernel finds the one kernel and initrd that were installed.
func takeKernel(tree string) (kernel, initrd string, err error) {
	kernels, _ := filepath.Glob(filepath.Join(tree, "boot/vmlinuz-*")) // the pattern is right
	initrds, _ := filepath.Glob(filepath.Join(tree, "boot/initrd.img-*"))
	if len(kernels) != 1 || len(initrds) != 1 {
		return "", "", fmt.Errorf("want one kernel and one initrd in /boot, have %d and %d", len(kernels), len(initrds))
	}
	return kernels[0], initrds[0], nil
}

// setTimes gives every file that is younger the time of the recipe.
func setTimes(ctx context.Context, progress io.Writer, tree string) error {
	return command(ctx, progress, "findutils", "find", tree, "-newermt", "@"+epoch, "-exec", "touch", "--no-dereference", "--date=@"+epoch, "{}", "+")
}

// command runs a program with fixed times, and says what to install where it is missing.
func command(ctx context.Context, progress io.Writer, pkg, name string, args ...string) error {
	path, err := look(name)
	if err != nil {
		return fmt.Errorf("%s is missing: apt-get install %s", name, pkg)
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "E2FSPROGS_FAKE_TIME="+epoch, "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	c.Stdout, c.Stderr = progress, progress
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // mmdebstrap takes its mounts away then
	c.WaitDelay = time.Minute
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// look finds a program, also where Debian keeps those of root.
func look(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}
