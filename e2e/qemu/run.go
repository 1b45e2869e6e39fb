package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Disk is a disk of a machine, empty at first.
type Disk struct {
	Name    string // also its serial: e2e-NAME
	Bus     string // BusSATA or BusNVMe
	SizeMiB int
	IOPS    int // 0: as fast as the host
	BPS     int // bytes per second; 0: as fast as the host
}

// The buses of a disk.
const (
	BusSATA = "sata"
	BusNVMe = "nvme"
)

// Machine is a virtual machine that lives for one script.
type Machine struct {
	Image     Image
	MemoryMiB int
	Disks     []Disk
	Share     string // folder on the host with the script "run"; the guest sees it as /share and may write to it
}

// Run boots the machine, runs the script and returns its exit status. What the script prints goes to out as it comes. When
// the context ends the machine does, too.
func (m Machine) Run(ctx context.Context, out io.Writer) (int, error) {
	path, err := look("qemu-system-x86_64")
	if err != nil {
		return 0, errors.New("qemu-system-x86_64 is missing: apt-get install qemu-system-x86")
	}
	dir, err := os.MkdirTemp("", "ioprio-vm")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	status, console := filepath.Join(m.Share, "status"), filepath.Join(dir, "console")
	if err := os.Remove(status); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	for _, d := range m.Disks {
		if err := makeDisk(filepath.Join(dir, d.Name), d.SizeMiB); err != nil {
			return 0, err
		}
	}
	qemu := exec.CommandContext(ctx, path, m.args(dir, console, useKVM())...)
	var complaints bytes.Buffer
	// QEMU opens its standard output anew and truncates it: it must be a pipe, never a file of the caller's.
	qemu.Stdout, qemu.Stderr = struct{ io.Writer }{out}, &complaints
	if err := qemu.Run(); err != nil {
		return 0, fmt.Errorf("%w: %s%s", errors.Join(err, ctx.Err()), complaints.String(), tail(console))
	}
	b, err := os.ReadFile(status)
	if err != nil {
		return 0, fmt.Errorf("the guest ended without a status: %s", tail(console))
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// args are QEMU's. The script's output comes by a virtio port that is QEMU's standard output; a stdio chardev would hang up when
// standard input ends.
func (m Machine) args(dir, console string, kvm bool) []string {
	accel := []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
	if kvm {
		accel = []string{"-accel", "kvm", "-cpu", "host"}
	}
	args := append(accel,
		"-m", strconv.Itoa(m.MemoryMiB), "-smp", "2", "-no-reboot", "-display", "none", "-nodefaults", "-no-user-config",
		"-kernel", m.Image.Kernel, "-initrd", m.Image.Initrd,
		"-append", "root=/dev/vda rw console=ttyS0 quiet loglevel=4 systemd.show_status=0 mitigations=off audit=0 panic=-1 scsi_mod.scan=sync",
		"-drive", "file="+m.Image.Root+",format=raw,if=virtio,snapshot=on,cache=unsafe",
		"-serial", "file:"+console,
		"-chardev", "file,id=out,path=/dev/fd/1", "-device", "virtio-serial", "-device", "virtserialport,chardev=out,name=e2e",
		"-virtfs", "local,path="+m.Share+",mount_tag=share,security_model=none",
		"-device", "ich9-ahci,id=ahci",
	)
	port := 0
	for _, d := range m.Disks {
		drive := fmt.Sprintf("file=%s,format=raw,if=none,id=%s,cache=unsafe", filepath.Join(dir, d.Name), d.Name)
		if d.IOPS > 0 {
			drive += fmt.Sprintf(",throttling.iops-total=%d", d.IOPS)
		}
		if d.BPS > 0 {
			drive += fmt.Sprintf(",throttling.bps-total=%d", d.BPS)
		}
		device := fmt.Sprintf("nvme,drive=%s,serial=e2e-%s", d.Name, d.Name)
		if d.Bus == BusSATA {
			device = fmt.Sprintf("ide-hd,drive=%s,serial=e2e-%s,bus=ahci.%d", d.Name, d.Name, port)
			port++
		}
		args = append(args, "-drive", drive, "-device", device)
	}
	return args
}

func makeDisk(path string, sizeMiB int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(int64(sizeMiB)<<20), f.Close())
}

// useKVM reports whether guests are to run in hardware. It is asked for and not guessed: a host may offer /dev/kvm and still
// not boot an ordinary guest with it.
func useKVM() bool { return os.Getenv("IOPRIO_KVM") != "" }

// tail is the end of the guest's console.
func tail(path string) string {
	const most = 4000
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}
