package qemu

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// stamp gives every inode of a file system the times of the recipe. mke2fs takes ctime and atime from the tree, where they
// cannot be set: they alone would make two builds differ.
func stamp(ctx context.Context, image, script string) error {
	dumpe2fs, err := look("dumpe2fs")
	if err != nil {
		return fmt.Errorf("dumpe2fs is missing: apt-get install e2fsprogs")
	}
	groups, err := exec.CommandContext(ctx, dumpe2fs, image).Output()
	if err != nil {
		return fmt.Errorf("dumpe2fs: %w", err)
	}
	var commands strings.Builder
	for _, inode := range usedInodes(string(groups)) {
		commands.WriteString(stampCommands(strconv.Itoa(inode)))
	}
	if err := os.WriteFile(script, []byte(commands.String()), 0o600); err != nil {
		return err
	}
	return command(ctx, io.Discard, "e2fsprogs", "debugfs", "-w", "-f", script, image)
}

// stampCommands are debugfs's for one inode. The extra fields hold nanoseconds.
func stampCommands(inode string) string {
	var b strings.Builder
	for _, field := range []string{"ctime", "atime"} {
		fmt.Fprintf(&b, "sif <%s> %s @%s\nsif <%s> %s_extra 0\n", inode, field, epoch, inode, field)
	}
	return b.String()
}

var (
	inodeCount = regexp.MustCompile(`(?m)^Inode count:\s+(\d+)$`)
	freeInodes = regexp.MustCompile(`(?m)^  Free inodes: (.+)$`)
)

// firstInode is the first that is not the file system's own, and the root directory's, 2, is added to it
// (EXT4_GOOD_OLD_FIRST_INO).
const firstInode = 11

// usedInodes reads what dumpe2fs prints: the count of all inodes and the ranges of the free ones.
func usedInodes(groups string) []int {
	count := 0
	if m := inodeCount.FindStringSubmatch(groups); m != nil {
		count, _ = strconv.Atoi(m[1])
	}
	free := make(map[int]bool)
	for _, m := range freeInodes.FindAllStringSubmatch(groups, -1) {
		for part := range strings.SplitSeq(m[1], ", ") {
			first, last, isRange := strings.Cut(part, "-")
			from, _ := strconv.Atoi(first)
			to := from
			if isRange {
				to, _ = strconv.Atoi(last)
			}
			for i := from; i <= to; i++ {
				free[i] = true
			}
		}
	}
	used := []int{2}
	for i := firstInode; i <= count; i++ {
		if !free[i] {
			used = append(used, i)
		}
	}
	return used
}
