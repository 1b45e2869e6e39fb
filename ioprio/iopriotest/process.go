package iopriotest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Process is a row of /proc.
type Process struct {
	PID     int // given if 0
	Cgroup  string
	Command string   // its command line, words parted by spaces
	Env     []string // KEY=VALUE
	Files   []string // open files, from descriptor 3 on
}

// AddProcess starts a process and returns its number.
func (n *Node) AddProcess(p Process) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.PID == 0 {
		n.nextPID++
		p.PID = n.nextPID
	}
	n.addProcess(p)
	return p.PID, n.tree.failed()
}

// RemoveProcess ends a process.
func (n *Node) RemoveProcess(pid int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeProcess(pid)
	return n.tree.failed()
}

// MoveProcess puts a process into another cgroup.
func (n *Node) MoveProcess(pid int, cgroup string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.procs[pid]
	if p == nil {
		return fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	moved := *p
	moved.Cgroup = cgroup
	n.addProcess(moved)
	if old := n.groups[p.Cgroup]; old != nil {
		n.renderGroup(old)
	}
	return n.tree.failed()
}

func (n *Node) addProcess(p Process) {
	p.Files, p.Env = slices.Clone(p.Files), slices.Clone(p.Env)
	n.procs[p.PID] = &p
	n.renderGroup(n.makeGroup(p.Cgroup))
	dir := fmt.Sprintf("/proc/%d", p.PID)
	words := strings.Fields(p.Command)
	n.tree.file(dir+"/cgroup", "0::"+p.Cgroup+"\n")
	n.tree.file(dir+"/cmdline", strings.Join(words, "\x00")+"\x00")
	n.tree.file(dir+"/environ", strings.Join(append(p.Env, ""), "\x00"))
	if len(words) > 0 {
		n.tree.file(dir+"/comm", filepath.Base(words[0])+"\n")
	}
	n.tree.link(dir+"/mountinfo", "/proc/self/mountinfo")
	n.tree.dir(dir + "/fd")
	for fd, file := range append([]string{"/dev/null", "socket:[17]", "socket:[17]"}, p.Files...) {
		n.tree.raw(fmt.Sprintf("%s/fd/%d", dir, fd), file)
		if filepath.IsAbs(file) && fd > 2 {
			n.tree.file(file, "")
		}
	}
}

func (n *Node) removeProcess(pid int) {
	p := n.procs[pid]
	if p == nil {
		return
	}
	delete(n.procs, pid)
	n.tree.drop(fmt.Sprintf("/proc/%d", pid))
	if g := n.groups[p.Cgroup]; g != nil {
		n.renderGroup(g)
	}
}

func readFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}
