package ioprio

import (
	"path/filepath"
	"strings"
)

// dmKind is what made a device-mapper device, by its dm/uuid: the subsystem's prefix before the first dash, as the tools
// write it ("LVM-...", "CRYPT-LUKS2-...", "mpath-...", "part1-mpath-..." of kpartx). A device that was made by hand may
// have none.
func dmKind(uuid string) string {
	kind, _, ok := strings.Cut(uuid, "-")
	if !ok {
		return ""
	}
	return kind
}

// isRequestBasedMultipath reports whether a device is dm-multipath with a queue of its own: then its scheduler works
// and those of the paths are bypassed (block/blk-mq.c, blk_insert_cloned_request).
func isRequestBasedMultipath(dir string) bool {
	uuid := readAttr(filepath.Join(dir, "dm/uuid"))
	if uuid.Err != nil || dmKind(uuid.Value) != "mpath" {
		return false
	}
	s := readAttr(filepath.Join(dir, "queue/scheduler"))
	return s.Err == nil && parseScheduler(s.Value).Switchable
}
