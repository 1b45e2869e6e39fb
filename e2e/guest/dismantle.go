package guest

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settleLimit bounds the wait for devices to come and go.
const settleLimit = time.Minute

// dismantle takes all stacks apart. udev looks at what was just closed and may bring an array or a cache back to life, so
// it takes more than one turn at times.
func dismantle() error {
	left, err := leftovers()
	var last error
	for turn := 0; turn < 5 && err == nil && len(left) > 0; turn++ {
		last = errors.Join(run("udevadm", "settle", "--timeout=60"), takeApart())
		left, err = leftovers()
	}
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return errors.Join(fmt.Errorf("stacks that stay: %s", strings.Join(left, ", ")), last)
	}
	return nil
}

// leftovers are what stacks left behind: mounts, devices, partitions and, if there is none of those, signatures.
func leftovers() ([]string, error) {
	points, err := mountPoints(mounts)
	if err != nil {
		return nil, err
	}
	left := slices.Concat(points, below(mounts), virtual("dm-*"), virtual("md*"), virtual("bcache*"), loops(), partitions())
	left = append(left, slices.Concat(caches(), registered())...)
	if len(left) > 0 {
		return left, nil
	}
	var devs []string
	for _, disk := range spares() {
		devs = append(devs, "/dev/"+disk)
	}
	signed, err := output("", "wipefs", append([]string{"--noheadings", "--output", "DEVICE,TYPE"}, devs...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(signed) {
		if words := strings.Fields(line); len(words) > 0 {
			left = append(left, strings.Join(words, " is "))
		}
	}
	return left, nil
}

// takeApart goes from the top to the disks and does all it can.
func takeApart() error {
	return errors.Join(stopLoops(), unmountAll(), stopMapped(), stopArrays(), stopCaches(), wipe())
}

// unmountAll also clears the directory below which things are mounted, once nothing is.
func unmountAll() error {
	points, err := mountPoints(mounts)
	if err != nil {
		return err
	}
	slices.Reverse(points)
	var all error
	for _, point := range points {
		if err := unix.Unmount(point, 0); err != nil {
			all = errors.Join(all, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	if all != nil {
		return all
	}
	for _, entry := range below(mounts) {
		all = errors.Join(all, os.RemoveAll(entry))
	}
	return all
}

// stopLoops detaches loop devices: one that is mounted later, when it is not any more.
func stopLoops() error {
	var all error
	for _, name := range loops() {
		all = errors.Join(all, run("losetup", "-d", "/dev/"+name))
	}
	return all
}

// stopMapped removes the last first: what lies on another was made after it.
func stopMapped() error {
	names := virtual("dm-*")
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(name, "dm-"))
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(b), number(a)) })
	var all error
	for _, name := range names {
		if uuid, _ := os.ReadFile(blocks + name + "/dm/uuid"); strings.HasPrefix(string(uuid), "LVM-") {
			all = lvm("vgchange", "-an", volumes)
			break
		}
	}
	for _, name := range names {
		if mapping, err := os.ReadFile(blocks + name + "/dm/name"); err == nil { // not gone with the group
			all = errors.Join(all, run("dmsetup", "remove", "--retry", strings.TrimSpace(string(mapping))))
		}
	}
	return all
}

func stopArrays() error {
	var all error
	for _, name := range virtual("md*") {
		all = errors.Join(all, run("mdadm", "--stop", "/dev/"+name))
	}
	return all
}

// stopCaches stops the devices, then the cache sets. Both end later, by themselves.
func stopCaches() error {
	if len(caches()) == 0 && len(registered()) == 0 {
		return nil
	}
	var all error
	for _, dir := range slices.Concat(registered(), caches()) {
		if err := write(dir+"/stop", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // a cache has none of its own
			all = errors.Join(all, err)
		}
	}
	return errors.Join(all, await("the end of bcache", settleLimit, func() bool {
		return len(virtual("bcache*")) == 0 && len(caches()) == 0 && len(registered()) == 0
	}))
}

// wipe erases signatures, those in partitions first, and with them the partition tables.
func wipe() error {
	var all error
	for _, name := range slices.Concat(partitions(), spares()) {
		all = errors.Join(all, run("wipefs", "--quiet", "--all", "/dev/"+name))
	}
	if len(partitions()) == 0 || all != nil {
		return all
	}
	for _, disk := range spares() {
		all = errors.Join(all, run("blockdev", "--rereadpt", "/dev/"+disk))
	}
	return all
}

// virtual are the block devices of a pattern.
func virtual(pattern string) []string { return bases(filepath.Glob(blocks + pattern)) }

// loops are the loop devices in use.
func loops() []string {
	files, _ := filepath.Glob(blocks + "loop*/loop/backing_file") // the pattern is good
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(filepath.Dir(file))))
	}
	return names
}

// partitions are those of the spare disks.
func partitions() []string {
	var names []string
	for _, disk := range spares() {
		names = append(names, bases(filepath.Glob(blocks+disk+"/"+disk+"*"))...)
	}
	return names
}

// caches are the directories of bcache's cache sets, which are named by their UUIDs.
func caches() []string {
	dirs, _ := filepath.Glob("/sys/fs/bcache/*-*-*-*-*")
	return dirs
}

// registered are the directories of the disks that bcache holds.
func registered() []string {
	dirs, _ := filepath.Glob(blocks + "*/bcache")
	return slices.DeleteFunc(dirs, func(dir string) bool { return strings.HasPrefix(dir, blocks+"bcache") }) // a link to them
}

// below is what lies in a directory.
func below(dir string) []string {
	found, _ := filepath.Glob(dir + "/*")
	return found
}

func bases(files []string, _ error) []string {
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

// mountPoints are those below a directory, in the order in which they were mounted.
func mountPoints(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return parseMountPoints(f, dir)
}

func parseMountPoints(mountinfo io.Reader, dir string) ([]string, error) {
	var points []string
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("mountinfo: %q has too few fields", lines.Text())
		}
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points, lines.Err()
}
