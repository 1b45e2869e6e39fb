package ioprio

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// weights checks every level from the root down, then what the weights are for: the ratio between the top level that
// k3s lives under and the pods.
func (c *checker) weights() {
	c.gen = probe(c.evidence())
	for _, g := range c.s.Groups {
		c.weight(g)
	}
	for _, pods := range c.s.Groups {
		if pods.Role != RolePods {
			continue
		}
		for _, top := range c.s.Groups {
			if top.Top {
				c.ratio(top, pods)
			}
		}
	}
	k3s := 0
	for _, g := range c.s.Groups {
		if g.Role == RoleK3s {
			k3s++
			c.mainProcess(g)
		}
	}
	if k3s == 0 {
		c.noUnit()
	}
}

// evidence pairs what systemd holds with what the kernel holds. Where systemd was not asked it is taken to hold the policy's
// weights.
func (c *checker) evidence() []evidence {
	var list []evidence
	for _, g := range slices.Concat(c.s.Groups, c.s.Siblings) {
		w, err := parseBFQWeights(g.Weight.Value)
		if g.Weight.Err != nil || err != nil || g.Unit.Name == "" {
			continue
		}
		e := evidence{ioWeight: g.Unit.IOWeight, kernel: w.Default}
		switch {
		case !c.s.Asked:
			e.ioWeight = c.ioWeight(g.Role)
		case e.ioWeight == WeightUnset:
			e.ioWeight = 100 // what systemd writes then (src/core/cgroup.c, CGROUP_WEIGHT_DEFAULT)
		}
		list = append(list, e)
	}
	return list
}

func (c *checker) ioWeight(role GroupRole) uint64 {
	switch role {
	case RoleSlice:
		return c.p.Weights.System
	case RoleK3s:
		return c.p.Weights.K3s
	default:
		return c.p.Weights.Kubepods
	}
}

// want is the io.bfq.weight that the kernel must have for a group.
func (c *checker) want(g Group) uint64 { return c.gen.Landed(c.ioWeight(g.Role)) }

// inert is why no weight is wanted on this node, or empty.
func (c *checker) inert() string {
	switch {
	case c.p.Scheduler != BFQ:
		return "the policy's scheduler is not bfq: only bfq reads weights"
	case len(c.managed) == 0:
		return "no disk is managed: IOWeight without BFQ is inert"
	}
	return ""
}

const fixUnified = "boot with systemd.unified_cgroup_hierarchy=1"

func (c *checker) weight(g Group) {
	want := strconv.FormatUint(c.want(g), 10)
	f := Finding{
		Subject: g.Name, Setting: SettingIOWeight, Want: want, Source: g.Weight.Source,
		Note: fmt.Sprintf("IOWeight=%d", c.ioWeight(g.Role)),
	}
	defer func() { c.add(f) }()
	if c.unavailable(&f, g) {
		return
	}
	w, err := parseBFQWeights(g.Weight.Value)
	if err != nil {
		f.Status, f.Reason, f.Fix = Unreadable, err.Error(), "report this kernel's format as a bug"
		return
	}
	f.Got = strconv.FormatUint(w.Default, 10)
	f.Status = OK
	if off := c.deviceOff(w, c.want(g)); off != "" {
		f.Got, f.Reason = f.Got+", "+off, "a weight of its own for a managed disk overrides the default"
		f.Status = Drift
	}
	if w.Default != c.want(g) {
		f.Status = Drift
		f.Reason = "the kernel has another weight"
		if c.gen.Weight(g.Unit.IOWeight) == c.want(g) {
			f.Reason = fmt.Sprintf("systemd says IOWeight=%d, the kernel does not: it was set before bfq was loaded, or overwritten", g.Unit.IOWeight)
		}
	} else if why := c.doomed(g); f.Status == OK && why != "" {
		f.Status, f.Reason = Drift, why
	}
	if f.Status == Drift {
		c.planWeight(&f, g)
	}
}

// unavailable fills the finding in if the weight cannot be compared, and plans what would make it appear.
func (c *checker) unavailable(f *Finding, g Group) bool {
	switch inert := c.inert(); {
	case inert != "":
		f.Status, f.Reason, f.Fix = SkippedStatus, inert, "none"
		f.Want, f.Note = "", ""
	case c.s.IOController != nil:
		f.Status, f.Reason = UnsupportedStatus, c.s.IOController.Error()
		f.Source = "/sys/fs/cgroup/cgroup.controllers"
		f.Fix = fixUnified
	case !g.Exists():
		f.Status, f.Source = Pending, "/sys/fs/cgroup/"+g.Name
		f.Reason = g.Name + " has no cgroup: it does not run"
		f.Fix = "none: start it; then ioprio-agent run sets the weight at once, ioprio-agent apply when it is called again"
	case g.Weight.Absent():
		f.Status = Drift
		f.Reason = "the kernel has no such file: bfq is not loaded"
		if g.Level != "" {
			f.Reason = "the io controller is not handed on in " + g.Level
		}
		c.planWeight(f, g)
	case g.Weight.Err != nil:
		f.Status, f.Reason, f.Fix = Unreadable, g.Weight.Err.Error(), "find out why the kernel does not answer"
	default:
		return false
	}
	return true
}

// deviceOff names the weights of single managed disks that differ from what is wanted.
func (c *checker) deviceOff(w BFQWeights, want uint64) string {
	var off []string
	for _, d := range c.managed {
		if n := w.On(d.Dev); n != w.Default && n != want {
			off = append(off, fmt.Sprintf("%s %d", d.Dev, n))
		}
	}
	return strings.Join(off, ", ")
}

// doomed is why a right weight will not last: systemd holds another one and writes that at its next reload.
func (c *checker) doomed(g Group) string {
	switch {
	case !c.s.Asked || c.s.BusError != nil || g.Unit.Name == "":
		return ""
	case g.Unit.IOWeight == WeightUnset && c.want(g) != c.gen.Weight(100):
		return "systemd has no IOWeight for it and will write its default at the next daemon-reload"
	case g.Unit.IOWeight != WeightUnset && c.gen.Weight(g.Unit.IOWeight) != c.want(g):
		return fmt.Sprintf("systemd has IOWeight=%d for it and will write that at the next daemon-reload", g.Unit.IOWeight)
	}
	return ""
}

// planWeight plans the write of a weight, unless it would harm the node.
func (c *checker) planWeight(f *Finding, g Group) {
	f.Fix = fixApply
	change := Change{
		Subject: g.Name, Setting: SettingIOWeight, From: f.Got, To: strconv.FormatUint(c.gen.Send(c.ioWeight(g.Role)), 10),
		Via: ViaSystemd, Target: g.Name, proof: g.Weight.Source,
	}
	if g.Unit.Name == "" { // no unit owns it, so nobody but the agent writes it
		change.Via, change.Target, change.To = ViaSysfs, g.Weight.Source, f.Want
	}
	if g.Name == kubepodsSlice && g.Unit.FragmentPath == "" && c.s.Asked && !allowsDropIns(c.s.SystemdVersion) {
		f.Status = UnsupportedStatus
		f.Reason = "systemd " + c.s.SystemdVersion + " could not start this slice again once a drop-in for it exists, and it is not transient"
		f.Fix = "upgrade systemd to 252, 251.8 or 250.9"
		return
	}
	c.changes = append(c.changes, change)
}

var versionNumber = regexp.MustCompile(`(\d+)(?:\.(\d+))?`)

// allowsDropIns reports whether a transient unit may have drop-ins: systemd commit 1f83244641, in v252 and backported
// to v251.8 and v250.9. On older ones a drop-in of kubepods.slice keeps the kubelet from starting it.
func allowsDropIns(version string) bool {
	m := versionNumber.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major >= 252 || (major == 251 && minor >= 8) || (major == 250 && minor >= 9)
}

// ratio checks what decides between etcd and the pods: the weights of siblings below the root.
func (c *checker) ratio(top, pods Group) {
	f := Finding{Subject: top.Name + ":" + pods.Name, Setting: SettingWeightRatio, Source: pods.Weight.Source}
	defer func() { c.add(f) }()
	if inert := c.inert(); inert != "" {
		f.Status, f.Reason, f.Fix = SkippedStatus, inert, "none"
		return
	}
	want := float64(c.want(top)) / float64(c.want(pods))
	f.Want = number(want)
	over, errOver := parseBFQWeights(top.Weight.Value)
	under, errUnder := parseBFQWeights(pods.Weight.Value)
	switch {
	case c.s.IOController != nil:
		f.Status, f.Reason, f.Fix = UnsupportedStatus, c.s.IOController.Error(), fixUnified
		return
	case !pods.Exists():
		f.Status, f.Reason = Pending, pods.Name+" has no cgroup: there are no pods to compare with"
		f.Source, f.Fix = "/sys/fs/cgroup/"+pods.Name, "none: start the kubelet"
		return
	case errOver != nil || errUnder != nil:
		f.Status, f.Reason, f.Fix = Drift, "a weight is missing: "+strings.TrimSpace(top.Weight.Source+" or "+pods.Weight.Source), fixApply
		return
	}
	got := want
	for _, d := range c.managed {
		got = min(got, float64(over.On(d.Dev))/float64(under.On(d.Dev)))
	}
	if real := float64(over.Default) / float64(under.Default); got == want && real > want {
		got = real
	}
	f.Got, f.Status = number(got), OK
	if got < want {
		f.Status, f.Reason, f.Fix = Drift, "pods may take more of a disk than the policy allows", fixApply
	}
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// mainProcess checks that the weight of a unit is the weight of the process that it is for.
func (c *checker) mainProcess(g Group) {
	f := Finding{Subject: g.Name, Setting: SettingMainProcess, Want: g.Unit.ControlGroup, Got: g.MainCgroup.Value, Source: g.MainCgroup.Source}
	defer func() { c.add(f) }()
	switch inert := c.inert(); {
	case inert != "":
		f.Status, f.Reason, f.Fix = SkippedStatus, inert, "none"
	case !c.s.Asked:
		f.Status, f.Reason, f.Fix = SkippedStatus, "only systemd knows the main process, and a captured tree has none", "none"
	case c.s.BusError != nil:
		f.Status, f.Reason, f.Fix = Unreadable, c.s.BusError.Error(), "see that systemd answers: systemctl status"
	case g.Unit.MainPID == 0:
		f.Status, f.Reason, f.Fix = Pending, g.Name+" has no main process", "none: start it"
	case g.MainCgroup.Err != nil:
		f.Status, f.Reason, f.Fix = Unreadable, g.MainCgroup.Err.Error(), "is the process still there? verify again"
	case !below(g.Unit.ControlGroup, g.MainCgroup.Value):
		f.Status, f.Reason = Drift, "the main process lives in another cgroup, so the weight of the unit is not its own"
		f.Fix = "start k3s by its unit, without a wrapper that moves it elsewhere"
	default:
		f.Status = OK
	}
}

// noUnit reports that nothing is known that runs k3s.
func (c *checker) noUnit() {
	f := Finding{Subject: "k3s.service", Setting: SettingIOWeight, Status: Pending, Reason: "no unit that runs k3s was found", Fix: "install k3s, or name its unit as k3s_unit in the configuration"}
	if c.p.Unit != "" {
		f.Subject = c.p.Unit
	}
	if inert := c.inert(); inert != "" {
		f.Status, f.Reason, f.Fix = SkippedStatus, inert, "none"
	}
	c.add(f)
}
