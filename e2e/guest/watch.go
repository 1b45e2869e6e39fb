package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch implements scenario.Machine with fanotify on sysfs and cgroupfs as a whole. inotify would not do: what a switch
// of the scheduler puts in queue/iosched, and the weights that bfq brings to cgroups, appear without an event, so nobody
// can begin to watch them in time. An event is queued before the write returns, so all are there once the agent ended.
//
// A cgroup that was made for k3s or for pods counts as well: the agent must not make up any.
func (m *Machine) Watch() (func() ([]string, error), error) {
	const flags = unix.FAN_CLASS_NOTIF | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK | unix.FAN_UNLIMITED_QUEUE
	fd, err := unix.FanotifyInit(flags, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_LARGEFILE|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	for _, dir := range []string{"/sys", cgroups} {
		const events = unix.FAN_MODIFY | unix.FAN_CLOSE_WRITE // an attempt that the kernel refused is only in the latter
		if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, events, unix.AT_FDCWD, dir); err != nil {
			return nil, errors.Join(fmt.Errorf("watching %s: %w", dir, err), unix.Close(fd))
		}
	}
	before, err := ownedGroups()
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return func() ([]string, error) {
		after, groupErr := ownedGroups()
		paths, err := drain(fd)
		if err := errors.Join(err, groupErr, unix.Close(fd)); err != nil {
			return nil, err
		}
		files := map[string]bool{}
		for _, path := range paths {
			if file, ok := watched(path); ok {
				files[file] = true
			}
		}
		for _, dir := range after {
			if !slices.Contains(before, dir) {
				files[dir] = true
			}
		}
		return slices.Sorted(maps.Keys(files)), nil
	}, nil
}

// ownedGroups are the cgroups of k3s and of pods. Others come and go as services do.
func ownedGroups() ([]string, error) {
	var dirs []string
	for _, dir := range []string{filepath.Join(cgroups, "system.slice", k3s), filepath.Join(cgroups, pods)} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return ignoreAbsent(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

var queueFile = regexp.MustCompile(`^/sys/devices/.*/([^/]+)/queue/((?:iosched/)?[^/]+)$`)

// watched names a file of a queue as /sys/block does, and reports whether a file is one of those that count.
func watched(path string) (string, bool) {
	if parts := queueFile.FindStringSubmatch(path); parts != nil {
		return blocks + parts[1] + "/queue/" + parts[2], true
	}
	base := filepath.Base(path)
	return path, strings.HasPrefix(path, cgroups+"/") && (base == "io.bfq.weight" || base == "io.weight")
}

// drain reads all events that are there and returns the paths of their files. The kernel opens each file anew and fails
// where that is not possible: it is gone, with its scheduler, or cannot be read, which no attribute of a queue is.
func drain(fd int) ([]string, error) {
	const failures = 1000 // more are not of single events
	var paths []string
	buf := make([]byte, 64<<10)
	for failed := 0; ; {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return paths, nil
		case err != nil && failed < failures && !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE):
			failed++ // for one event, which is gone with that
			continue
		case err != nil:
			return nil, fmt.Errorf("reading fanotify events: %w", err)
		}
		fds, err := parseEvents(buf[:n])
		for _, file := range fds {
			path, linkErr := os.Readlink("/proc/self/fd/" + strconv.Itoa(file))
			err = errors.Join(err, linkErr, unix.Close(file))
			paths = append(paths, path)
		}
		if err != nil {
			return nil, err
		}
	}
}

// parseEvents returns the file descriptors of fanotify's events (fanotify(7)).
func parseEvents(b []byte) ([]int, error) {
	const size = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	var fds []int
	for len(b) > 0 {
		var event unix.FanotifyEventMetadata
		if err := binary.Read(bytes.NewReader(b), binary.NativeEndian, &event); err != nil {
			return fds, fmt.Errorf("fanotify event: %w", err)
		}
		if event.Vers != unix.FANOTIFY_METADATA_VERSION || int(event.Event_len) < size || int(event.Event_len) > len(b) {
			return fds, fmt.Errorf("fanotify event of version %d has %d bytes of %d", event.Vers, event.Event_len, len(b))
		}
		if event.Mask&unix.FAN_Q_OVERFLOW != 0 {
			return fds, errors.New("fanotify: events were lost")
		}
		if event.Fd != unix.FAN_NOFD {
			fds = append(fds, int(event.Fd))
		}
		b = b[event.Event_len:]
	}
	return fds, nil
}
