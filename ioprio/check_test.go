package ioprio

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// right is the state of a node that has all that the default policy wants.
func right() State {
	return State{
		Paths: []Path{{Path: "/k3s", Roles: []string{RoleData}, Chain: []string{"sda"}, Disks: []string{"sda"}}},
		Disks: []Disk{disk("sda", "8:0")},
		Groups: []Group{
			group(RoleSlice, "system.slice", "/system.slice", 10000, "default 1000"),
			withMain(group(RoleK3s, "k3s.service", "/system.slice/k3s.service", 10000, "default 1000")),
			group(RolePods, "kubepods.slice", "/kubepods.slice", 100, "default 100"),
		},
		Loaded: true, Asked: true, SystemdVersion: "252.39",
	}
}

func disk(name, dev string) Disk {
	dir := "/sys/block/" + name + "/queue/"
	return Disk{Name: name, Dev: dev, Class: Managed, Roles: []string{RoleData}, Queue: Queue{
		Scheduler:  Attr{Source: dir + "scheduler", Value: "mq-deadline [bfq] none"},
		NrRequests: Attr{Source: dir + "nr_requests", Value: "32"},
	}}
}

func group(role GroupRole, name, cgroup string, ioWeight uint64, file string) Group {
	return Group{
		Name: name, Role: role, Cgroup: cgroup, Top: role == RoleSlice,
		Unit:   Unit{Name: name, LoadState: "loaded", ActiveState: "active", ControlGroup: cgroup, IOWeight: ioWeight, FragmentPath: "/run/systemd/transient/" + name},
		Weight: Attr{Source: "/sys/fs/cgroup" + cgroup + "/io.bfq.weight", Value: file},
	}
}

func withMain(g Group) Group {
	g.Unit.MainPID = 7
	g.MainCgroup = Attr{Source: "/proc/7/cgroup", Value: g.Cgroup}
	return g
}

// missing is an attribute that the kernel does not have.
func missing(source string) Attr {
	return Attr{Source: source, Err: &fs.PathError{Op: "open", Path: source, Err: fs.ErrNotExist}}
}

func TestCheckPasses(t *testing.T) {
	r := Check(DefaultPolicy(), right())
	want := []Finding{
		{Subject: "sda", Setting: "scheduler", Want: "bfq", Got: "bfq", Status: OK, Source: "/sys/block/sda/queue/scheduler"},
		{Subject: "sda", Setting: "nr_requests", Want: "32", Got: "32", Status: OK, Source: "/sys/block/sda/queue/nr_requests"},
		{Subject: "system.slice", Setting: "io_weight", Want: "1000", Got: "1000", Status: OK, Source: "/sys/fs/cgroup/system.slice/io.bfq.weight"},
		{Subject: "k3s.service", Setting: "io_weight", Want: "1000", Got: "1000", Status: OK, Source: "/sys/fs/cgroup/system.slice/k3s.service/io.bfq.weight"},
		{Subject: "kubepods.slice", Setting: "io_weight", Want: "100", Got: "100", Status: OK, Source: "/sys/fs/cgroup/kubepods.slice/io.bfq.weight"},
		{Subject: "system.slice:kubepods.slice", Setting: "weight_ratio", Want: "10", Got: "10", Status: OK, Source: "/sys/fs/cgroup/kubepods.slice/io.bfq.weight"},
		{Subject: "k3s.service", Setting: "main_process", Want: "/system.slice/k3s.service", Got: "/system.slice/k3s.service", Status: OK, Source: "/proc/7/cgroup"},
	}
	if diff := cmp.Diff(want, r.Findings, cmpopts.IgnoreFields(Finding{}, "Note")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r.Verdict != Pass || len(r.Changes()) != 0 {
		t.Errorf("verdict %s with changes %v, want pass without", r.Verdict, r.Changes())
	}
}

// Each row breaks one thing of a node that is right, and names what must come out: the findings that are not ok as
// "subject setting status", and the changes as "subject setting to".
func TestCheckFinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		broken  func(*Policy, *State)
		verdict Verdict
		found   []string
		changes []string
	}{
		{
			"B11 scheduler lost: nr_requests is written again even if it looks right",
			func(_ *Policy, s *State) { s.Disks[0].Queue.Scheduler.Value = "[mq-deadline] bfq none" },
			Fail,
			[]string{"sda scheduler drift"},
			[]string{"sda scheduler bfq", "sda nr_requests 32"},
		},
		{
			"B02 bfq not listed and not loaded: the module comes first",
			func(_ *Policy, s *State) { s.Disks[0].Queue.Scheduler.Value, s.Loaded = "[mq-deadline] none", false },
			Fail,
			[]string{"sda scheduler drift"},
			[]string{"sda scheduler loaded", "sda scheduler bfq", "sda nr_requests 32"},
		},
		{
			"nr_requests lost",
			func(_ *Policy, s *State) { s.Disks[0].Queue.NrRequests.Value = "64" },
			Fail,
			[]string{"sda nr_requests drift"},
			[]string{"sda nr_requests 32"},
		},
		{
			"nr_requests unreadable",
			func(_ *Policy, s *State) {
				s.Disks[0].Queue.NrRequests = Attr{Source: "f", Err: errors.New("input/output error")}
			},
			Fail,
			[]string{"sda nr_requests unreadable"},
			nil,
		},
		{
			"second disk of two",
			func(_ *Policy, s *State) {
				s.Disks = append(s.Disks, disk("sdb", "8:16"))
				s.Disks[1].Queue.Scheduler.Value = "[none] bfq"
			},
			Fail,
			[]string{"sdb scheduler drift"},
			[]string{"sdb scheduler bfq", "sdb nr_requests 32"},
		},
		{
			"T24 iosched of the policy",
			func(p *Policy, s *State) {
				p.IOSched = map[string]string{"slice_idle": "8"}
				s.Disks[0].Queue.IOSched = map[string]Attr{"slice_idle": {Source: "f", Value: "0"}}
			},
			Fail,
			[]string{"sda slice_idle drift"},
			[]string{"sda slice_idle 8"},
		},
		{
			"iosched appears with the scheduler",
			func(p *Policy, s *State) {
				p.IOSched = map[string]string{"slice_idle": "8"}
				s.Disks[0].Queue.IOSched = map[string]Attr{"slice_idle": missing("f")}
				s.Disks[0].Queue.Scheduler.Value = "[none] bfq"
			},
			Fail,
			[]string{"sda scheduler drift", "sda slice_idle drift"},
			[]string{"sda scheduler bfq", "sda nr_requests 32", "sda slice_idle 8"},
		},
		{
			"C08 weights set before bfq was loaded",
			func(_ *Policy, s *State) {
				for i := range s.Groups {
					s.Groups[i].Weight.Value = "default 100"
				}
			},
			Fail,
			[]string{"system.slice io_weight drift", "k3s.service io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"system.slice io_weight 10000", "k3s.service io_weight 10000"},
		},
		{
			"C05 one disk has a weight of its own",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "default 100\n8:0 1000" },
			Fail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"kubepods.slice io_weight 100"},
		},
		{
			"C05 a disk that is not managed has a weight of its own",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "default 100\n259:0 1000" },
			Pass, nil, nil,
		},
		{
			"T12 only k3s is raised",
			func(_ *Policy, s *State) {
				s.Groups[0].Weight.Value, s.Groups[0].Unit.IOWeight = "default 100", WeightUnset
			},
			Fail,
			[]string{"system.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"system.slice io_weight 10000"},
		},
		{
			"C12 written behind systemd's back",
			func(_ *Policy, s *State) { s.Groups[0].Unit.IOWeight = WeightUnset },
			Fail,
			[]string{"system.slice io_weight drift"},
			[]string{"system.slice io_weight 10000"},
		},
		{
			"C11 no weight file although bfq is loaded",
			func(_ *Policy, s *State) {
				s.Groups[2].Weight = missing("f")
				s.Groups[2].Level = "/sys/fs/cgroup/cgroup.subtree_control"
			},
			Fail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"kubepods.slice io_weight 100"},
		},
		{
			"weight file of another format",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "what" },
			Fail,
			[]string{"kubepods.slice io_weight unreadable", "system.slice:kubepods.slice weight_ratio drift"},
			nil,
		},
		{
			"C17 hybrid",
			func(_ *Policy, s *State) {
				s.IOController = errors.New("hybrid")
				for i := range s.Groups {
					s.Groups[i].Weight, s.Groups[i].Cgroup = missing("f"), ""
				}
			},
			Fail,
			[]string{"system.slice io_weight unsupported", "k3s.service io_weight unsupported", "kubepods.slice io_weight unsupported", "system.slice:kubepods.slice weight_ratio unsupported"},
			nil,
		},
		{
			"kubepods absent",
			func(_ *Policy, s *State) { s.Groups[2].Cgroup = "" },
			Waiting,
			[]string{"kubepods.slice io_weight pending", "system.slice:kubepods.slice weight_ratio pending"},
			nil,
		},
		{
			"k3s stopped",
			func(_ *Policy, s *State) { s.Groups[1].Cgroup, s.Groups[1].Unit.MainPID = "", 0 },
			Waiting,
			[]string{"k3s.service io_weight pending", "k3s.service main_process pending"},
			nil,
		},
		{
			"no k3s unit",
			func(_ *Policy, s *State) { s.Groups = []Group{s.Groups[0], s.Groups[2]} },
			Waiting,
			[]string{"k3s.service io_weight pending"},
			nil,
		},
		{
			"main process elsewhere",
			func(_ *Policy, s *State) { s.Groups[1].MainCgroup.Value = "/user.slice/screen.scope" },
			Fail,
			[]string{"k3s.service main_process drift"},
			nil,
		},
		{
			"main process in a cgroup with a like name",
			func(_ *Policy, s *State) { s.Groups[1].MainCgroup.Value = "/system.slice/k3s.service2" },
			Fail,
			[]string{"k3s.service main_process drift"},
			nil,
		},
		{
			"main process in a delegated cgroup below",
			func(_ *Policy, s *State) { s.Groups[1].MainCgroup.Value = "/system.slice/k3s.service/init" },
			Pass, nil, nil,
		},
		{
			"bus down",
			func(_ *Policy, s *State) { s.BusError = errors.New("no bus") },
			Fail,
			[]string{"k3s.service main_process unreadable"},
			nil,
		},
		{
			"unsupported disk alone: no weights",
			func(_ *Policy, s *State) { s.Disks[0].Class, s.Disks[0].Reason = Unsupported, "zoned" },
			Fail, append([]string{"sda scheduler unsupported", "sda nr_requests unsupported"}, noWeights...), nil,
		},
		{
			"NVMe alone: no weights",
			func(_ *Policy, s *State) {
				s.Disks[0].Class, s.Disks[0].Reason = Skipped, "NVMe"
				s.Disks[0].Queue.Scheduler.Value = "[none] mq-deadline"
			},
			Pass, append([]string{"sda scheduler skipped", "sda nr_requests skipped"}, noWeights...), nil,
		},
		{
			"T26 kubepods.slice that is not transient, on systemd 247",
			func(_ *Policy, s *State) {
				s.SystemdVersion, s.Groups[2].Unit.FragmentPath = "247.3", ""
				s.Groups[2].Weight.Value = "default 500"
			},
			Fail,
			[]string{"kubepods.slice io_weight unsupported", "system.slice:kubepods.slice weight_ratio drift"},
			nil,
		},
		{
			"T26 kubepods.slice of the kubelet, on systemd 247",
			func(_ *Policy, s *State) { s.SystemdVersion, s.Groups[2].Weight.Value = "247.3", "default 500" },
			Fail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"kubepods.slice io_weight 100"},
		},
		{
			"C15 cgroupfs driver: the agent writes the file itself",
			func(_ *Policy, s *State) {
				s.Groups[2] = group(RolePods, "/kubepods", "/kubepods", 0, "default 500")
				s.Groups[2].Unit = Unit{}
			},
			Fail,
			[]string{"/kubepods io_weight drift", "system.slice:/kubepods weight_ratio drift"},
			[]string{"/kubepods io_weight 100"},
		},
		{
			"T1 raw generation: what has landed is right",
			func(_ *Policy, s *State) { s.Groups[0].Unit.IOWeight, s.Groups[1].Unit.IOWeight = 1000, 1000 },
			Pass, nil, nil,
		},
		{
			"T2 tenth generation: kubepods has 10",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "default 10" },
			Pass, nil, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, s := DefaultPolicy(), right()
			tt.broken(&p, &s)
			r := Check(p, s)
			var found, changes []string
			for _, f := range r.Findings {
				if f.Status == OK {
					continue
				}
				found = append(found, fmt.Sprintf("%s %s %s", f.Subject, f.Setting, f.Status))
				if f.Reason == "" || f.Fix == "" {
					t.Errorf("%s %s is %s without a reason or a way out: %+v", f.Subject, f.Setting, f.Status, f)
				}
			}
			for _, c := range r.Changes() {
				changes = append(changes, fmt.Sprintf("%s %s %s", c.Subject, c.Setting, c.To))
			}
			if diff := cmp.Diff(tt.found, found); diff != "" {
				t.Errorf("findings (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.changes, changes); diff != "" {
				t.Errorf("changes (-want +got)\n%s", diff)
			}
			if r.Verdict != tt.verdict {
				t.Errorf("verdict %s, want %s", r.Verdict, tt.verdict)
			}
		})
	}
}

var noWeights = []string{
	"system.slice io_weight skipped", "k3s.service io_weight skipped", "kubepods.slice io_weight skipped",
	"system.slice:kubepods.slice weight_ratio skipped", "k3s.service main_process skipped",
}
