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
			group(GroupSlice, "system.slice", "/system.slice", 10000, "default 1000"),
			withMain(group(GroupK3s, "k3s.service", "/system.slice/k3s.service", 10000, "default 1000")),
			group(GroupPods, "kubepods.slice", "/kubepods.slice", 100, "default 100"),
		},
		Loaded: true, Asked: true, SystemdVersion: "252.39", UnitDir: "/etc/systemd/system",
		Controllers: Attr{Source: "/sys/fs/cgroup/cgroup.controllers", Value: "cpu io memory"},
	}
}

func disk(name, dev string) Disk {
	dir := "/sys/block/" + name + "/queue/"
	return Disk{Name: name, Dev: dev, Class: ClassManaged, Roles: []string{RoleData}, Queue: Queue{
		Scheduler:  Attr{Source: dir + "scheduler", Value: "mq-deadline [bfq] none"},
		NrRequests: Attr{Source: dir + "nr_requests", Value: "32"},
	}}
}

func group(role GroupRole, name, cgroup string, ioWeight uint64, file string) Group {
	return Group{
		Name: name, Role: role, Cgroup: cgroup, Exists: true,
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
		{Subject: "sda", Setting: "scheduler", Want: "bfq", Got: "bfq", Status: StatusOK, Source: "/sys/block/sda/queue/scheduler"},
		{Subject: "sda", Setting: "nr_requests", Want: "32", Got: "32", Status: StatusOK, Source: "/sys/block/sda/queue/nr_requests"},
		{Subject: "system.slice", Setting: "io_weight", Want: "1000", Got: "1000", Status: StatusOK, Source: "/sys/fs/cgroup/system.slice/io.bfq.weight"},
		{Subject: "k3s.service", Setting: "io_weight", Want: "1000", Got: "1000", Status: StatusOK, Source: "/sys/fs/cgroup/system.slice/k3s.service/io.bfq.weight"},
		{Subject: "kubepods.slice", Setting: "io_weight", Want: "100", Got: "100", Status: StatusOK, Source: "/sys/fs/cgroup/kubepods.slice/io.bfq.weight"},
		{Subject: "system.slice:kubepods.slice", Setting: "weight_ratio", Want: "10", Got: "10", Status: StatusOK, Source: "/sys/fs/cgroup/kubepods.slice/io.bfq.weight"},
		{Subject: "k3s.service", Setting: "main_process", Want: "/system.slice/k3s.service", Got: "/system.slice/k3s.service", Status: StatusOK, Source: "/proc/7/cgroup"},
	}
	if diff := cmp.Diff(want, r.Findings, cmpopts.IgnoreFields(Finding{}, "Note")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r.Verdict != VerdictPass || len(r.Changes()) != 0 {
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
			VerdictFail,
			[]string{"sda scheduler drift"},
			[]string{"sda scheduler bfq", "sda nr_requests 32"},
		},
		{
			"B02 bfq not listed and not loaded: the module comes first",
			func(_ *Policy, s *State) { s.Disks[0].Queue.Scheduler.Value, s.Loaded = "[mq-deadline] none", false },
			VerdictFail,
			[]string{"sda scheduler drift"},
			[]string{"bfq module loaded", "sda scheduler bfq", "sda nr_requests 32"},
		},
		{
			"nr_requests lost",
			func(_ *Policy, s *State) { s.Disks[0].Queue.NrRequests.Value = "64" },
			VerdictFail,
			[]string{"sda nr_requests drift"},
			[]string{"sda nr_requests 32"},
		},
		{
			"nr_requests unreadable",
			func(_ *Policy, s *State) {
				s.Disks[0].Queue.NrRequests = Attr{Source: "f", Err: errors.New("input/output error")}
			},
			VerdictFail,
			[]string{"sda nr_requests unreadable"},
			nil,
		},
		{
			"second disk of two",
			func(_ *Policy, s *State) {
				s.Disks = append(s.Disks, disk("sdb", "8:16"))
				s.Disks[1].Queue.Scheduler.Value = "[none] bfq"
			},
			VerdictFail,
			[]string{"sdb scheduler drift"},
			[]string{"sdb scheduler bfq", "sdb nr_requests 32"},
		},
		{
			"T24 iosched of the policy",
			func(p *Policy, s *State) {
				p.IOSched = map[string]string{"slice_idle": "8"}
				s.Disks[0].Queue.IOSched = map[string]Attr{"slice_idle": {Source: "f", Value: "0"}}
			},
			VerdictFail,
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
			VerdictFail,
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
			VerdictFail,
			[]string{"system.slice io_weight drift", "k3s.service io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"system.slice io_weight 10000", "k3s.service io_weight 10000"},
		},
		{
			"C05 one disk has a weight of its own",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "default 100\n8:0 1000" },
			VerdictFail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"kubepods.slice io_weight 100"},
		},
		{
			"C05 a disk that is not managed has a weight of its own",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "default 100\n259:0 1000" },
			VerdictPass, nil, nil,
		},
		{
			"T12 only k3s is raised",
			func(_ *Policy, s *State) {
				s.Groups[0].Weight.Value, s.Groups[0].Unit.IOWeight = "default 100", WeightUnset
			},
			VerdictFail,
			[]string{"system.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"system.slice io_weight 10000"},
		},
		{
			"C12 written behind systemd's back",
			func(_ *Policy, s *State) { s.Groups[0].Unit.IOWeight = WeightUnset },
			VerdictFail,
			[]string{"system.slice io_weight drift"},
			[]string{"system.slice io_weight 10000"},
		},
		{
			"C11 no weight file although bfq is loaded",
			func(_ *Policy, s *State) {
				s.Groups[2].Weight = missing("f")
				s.Groups[2].NoIO = "/sys/fs/cgroup/cgroup.subtree_control"
			},
			VerdictFail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"kubepods.slice io_weight 100"},
		},
		{
			"weight file of another format",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "what" },
			VerdictFail,
			[]string{"kubepods.slice io_weight unreadable", "system.slice:kubepods.slice weight_ratio drift"},
			nil,
		},
		{
			"C17 hybrid",
			func(_ *Policy, s *State) {
				s.Controllers = missing("/sys/fs/cgroup/cgroup.controllers")
				for i := range s.Groups {
					s.Groups[i].Weight, s.Groups[i].Exists = missing("f"), false
				}
			},
			VerdictFail,
			[]string{"system.slice io_weight unsupported", "k3s.service io_weight unsupported", "kubepods.slice io_weight unsupported", "system.slice:kubepods.slice weight_ratio unsupported"},
			nil,
		},
		{
			"C03 the io controller is missing on cgroup v2",
			func(_ *Policy, s *State) { s.Controllers.Value = "cpu memory" },
			VerdictFail,
			[]string{"system.slice io_weight unsupported", "k3s.service io_weight unsupported", "kubepods.slice io_weight unsupported", "system.slice:kubepods.slice weight_ratio unsupported"},
			nil,
		},
		{
			"cgroup.controllers cannot be read",
			func(_ *Policy, s *State) { s.Controllers.Err = fs.ErrPermission },
			VerdictFail,
			[]string{"system.slice io_weight unreadable", "k3s.service io_weight unreadable", "kubepods.slice io_weight unreadable", "system.slice:kubepods.slice weight_ratio unreadable"},
			nil,
		},
		{
			"bfq without cgroup support",
			func(_ *Policy, s *State) { s.Groups[2].Weight = missing("f") },
			VerdictFail,
			[]string{"kubepods.slice io_weight unsupported", "system.slice:kubepods.slice weight_ratio drift"},
			nil,
		},
		{
			"T24 an attribute that the scheduler does not have",
			func(p *Policy, s *State) {
				p.IOSched = map[string]string{"slice_idel": "8"}
				s.Disks[0].Queue.IOSched = map[string]Attr{"slice_idel": missing("f")}
			},
			VerdictFail,
			[]string{"sda slice_idel unsupported"},
			nil,
		},
		{
			"k3s in the root slice competes itself",
			func(_ *Policy, s *State) {
				s.Groups = []Group{withMain(group(GroupK3s, "k3s.service", "/k3s.service", 10000, "default 100")), s.Groups[2]}
			},
			VerdictFail,
			[]string{"k3s.service io_weight drift", "k3s.service:kubepods.slice weight_ratio drift"},
			[]string{"k3s.service io_weight 10000"},
		},
		{
			"bus down and a weight lost: nothing is planned that only systemd can do",
			func(_ *Policy, s *State) {
				s.BusError, s.SystemdVersion = errors.New("no bus"), ""
				s.Groups[2].Weight.Value, s.Groups[2].Unit.FragmentPath = "default 500", ""
			},
			VerdictFail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift", "k3s.service main_process unreadable"},
			nil,
		},
		{
			"bus down and no unit known",
			func(_ *Policy, s *State) {
				s.BusError, s.Groups = errors.New("no bus"), []Group{s.Groups[0], s.Groups[2]}
			},
			VerdictFail,
			[]string{"k3s.service io_weight unreadable"},
			nil,
		},
		{
			"kubepods absent",
			func(_ *Policy, s *State) { s.Groups[2].Exists = false },
			VerdictPending,
			[]string{"kubepods.slice io_weight pending", "system.slice:kubepods.slice weight_ratio pending"},
			nil,
		},
		{
			"k3s stopped",
			func(_ *Policy, s *State) { s.Groups[1].Exists, s.Groups[1].Unit.MainPID = false, 0 },
			VerdictPending,
			[]string{"k3s.service io_weight pending", "k3s.service main_process pending"},
			nil,
		},
		{
			"no k3s unit",
			func(_ *Policy, s *State) {
				s.Groups = []Group{s.Groups[0], s.Groups[2]}
				s.Groups[1].Exists = false
			},
			VerdictPending,
			[]string{"kubepods.slice io_weight pending", "system.slice:kubepods.slice weight_ratio pending", "k3s.service io_weight pending"},
			nil,
		},
		{
			"no k3s unit and pods that run",
			func(_ *Policy, s *State) { s.Groups = []Group{s.Groups[0], s.Groups[2]} },
			VerdictFail,
			[]string{"k3s.service io_weight drift"},
			nil,
		},
		{
			"main process elsewhere",
			func(_ *Policy, s *State) { s.Groups[1].MainCgroup.Value = "/user.slice/screen.scope" },
			VerdictFail,
			[]string{"k3s.service main_process drift"},
			nil,
		},
		{
			"main process in a cgroup with a like name",
			func(_ *Policy, s *State) { s.Groups[1].MainCgroup.Value = "/system.slice/k3s.service2" },
			VerdictFail,
			[]string{"k3s.service main_process drift"},
			nil,
		},
		{
			"main process in a delegated cgroup below",
			func(_ *Policy, s *State) { s.Groups[1].MainCgroup.Value = "/system.slice/k3s.service/init" },
			VerdictPass, nil, nil,
		},
		{
			"bus down",
			func(_ *Policy, s *State) { s.BusError = errors.New("no bus") },
			VerdictFail,
			[]string{"k3s.service main_process unreadable"},
			nil,
		},
		{
			"unsupported disk alone: no weights",
			func(_ *Policy, s *State) { s.Disks[0].Class, s.Disks[0].Reason = ClassUnsupported, "zoned" },
			VerdictFail, append([]string{"sda scheduler unsupported", "sda nr_requests unsupported"}, noWeights...), nil,
		},
		{
			"NVMe alone: no weights",
			func(_ *Policy, s *State) {
				s.Disks[0].Class, s.Disks[0].Reason = ClassSkipped, "NVMe"
				s.Disks[0].Queue.Scheduler.Value = "[none] mq-deadline"
			},
			VerdictPass, append([]string{"sda scheduler skipped", "sda nr_requests skipped"}, noWeights...), nil,
		},
		{
			"T26 kubepods.slice that is not transient, on systemd 247",
			func(_ *Policy, s *State) {
				s.SystemdVersion, s.Groups[2].Unit.FragmentPath = "247.3", ""
				s.Groups[2].Weight.Value = "default 500"
			},
			VerdictFail,
			[]string{"kubepods.slice io_weight unsupported", "system.slice:kubepods.slice weight_ratio drift"},
			nil,
		},
		{
			"T26 kubepods.slice of the kubelet, on systemd 247",
			func(_ *Policy, s *State) { s.SystemdVersion, s.Groups[2].Weight.Value = "247.3", "default 500" },
			VerdictFail,
			[]string{"kubepods.slice io_weight drift", "system.slice:kubepods.slice weight_ratio drift"},
			[]string{"kubepods.slice io_weight 100"},
		},
		{
			"C15 cgroupfs driver: the agent writes the file itself",
			func(_ *Policy, s *State) {
				s.Groups[2] = group(GroupPods, "/kubepods", "/kubepods", 0, "default 500")
				s.Groups[2].Unit = Unit{}
			},
			VerdictFail,
			[]string{"/kubepods io_weight drift", "system.slice:/kubepods weight_ratio drift"},
			[]string{"/kubepods io_weight 100"},
		},
		{
			"T1 raw generation: what has landed is right",
			func(_ *Policy, s *State) { s.Groups[0].Unit.IOWeight, s.Groups[1].Unit.IOWeight = 1000, 1000 },
			VerdictPass, nil, nil,
		},
		{
			"T2 tenth generation: kubepods has 10",
			func(_ *Policy, s *State) { s.Groups[2].Weight.Value = "default 10" },
			VerdictPass, nil, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, s := DefaultPolicy(), right()
			tt.broken(&p, &s)
			r := Check(p, s)
			var found, changes []string
			for _, f := range r.Findings {
				if f.Status == StatusOK {
					continue
				}
				found = append(found, fmt.Sprintf("%s %s %s", f.Subject, f.Setting, f.Status))
				if f.Reason == "" || f.Fix == "" || f.Source == "" {
					t.Errorf("%s %s is %s without a file, a reason or a way out: %+v", f.Subject, f.Setting, f.Status, f)
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
