package ioprio

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	fixAnswer = "run: journalctl -k -b; the kernel does not answer for this file"
	fixBus    = "run: systemctl status; systemd does not answer"
	fixNone   = "nothing"
)

// weights checks every level from the root down, then what the weights are for: the ratio between the top level that
// k3s lives under and the pods.
func (c *checker) weights() {
	c.gen = probe(c.evidence())
	for _, g := range c.s.Groups {
		c.add(c.weight(g))
	}
	for _, pods := range c.s.Groups {
		for _, top := range c.s.Groups {
			if pods.Role == GroupPods && top.Role != GroupPods && top.Top() {
				c.add(c.ratio(top, pods))
			}
		}
	}
	found := false
	for _, g := range c.s.Groups {
		if g.Role == GroupK3s {
			found = true
			c.add(c.mainProcess(g))
		}
	}
	if !found {
		c.add(c.noUnit())
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
	case GroupSlice:
		return c.p.Weights.System
	case GroupK3s:
		return c.p.Weights.K3s
	default:
		return c.p.Weights.Kubepods
	}
}

// want is the io.bfq.weight that the kernel must have for a group.
// Where no unit owns it the agent writes it itself, whatever systemd would make of an IOWeight.
func (c *checker) want(g Group) uint64 {
	if g.Unit.Name == "" {
		return Piecewise.Weight(c.ioWeight(g.Role))
	}
	return c.gen.Landed(c.ioWeight(g.Role))
}

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

// excused fills in a finding about weights for a node that is to have none or cannot have any.
func (c *checker) excused(f Finding) (Finding, bool) {
	controllers := c.s.Controllers
	switch inert := c.inert(); {
	case inert != "":
		f.Status, f.Reason, f.Fix = StatusSkipped, inert, fixNone
		f.Want, f.Got, f.Note = "", "", ""
		return f, true
	case controllers.Absent():
		f.Status, f.Reason = StatusUnsupported, "cgroup v2 is not mounted there: the node runs cgroup v1 or a hybrid"
		f.Fix = "boot with systemd.unified_cgroup_hierarchy=1"
	case controllers.Err != nil:
		f.Status, f.Reason, f.Fix = StatusUnreadable, controllers.Err.Error(), fixAnswer
	case !slices.Contains(strings.Fields(controllers.Value), "io"):
		f.Status, f.Reason = StatusUnsupported, "the kernel has no io controller on cgroup v2"
		f.Fix = "boot without cgroup_disable=io and cgroup_no_v1 or blkio mounts that take it"
	default:
		return f, false
	}
	f.Source = controllers.Source
	return f, true
}

func (c *checker) weight(g Group) Finding {
	want := c.want(g)
	f := Finding{
		Subject: g.Name, Setting: SettingIOWeight, Want: strconv.FormatUint(want, 10), Source: g.Weight.Source,
		Note: fmt.Sprintf("IOWeight=%d", c.ioWeight(g.Role)),
	}
	if f, excused := c.excused(f); excused {
		return f
	}
	switch {
	case !g.Exists:
		f.Status, f.Reason, f.Fix = StatusPending, g.Name+" has no cgroup: it does not run", fixStart(g)
		return f
	case g.Weight.Absent() && g.NoIO == "" && c.s.Loaded:
		f.Status, f.Reason = StatusUnsupported, "bfq is loaded and gives no weights: this kernel was built without CONFIG_BFQ_GROUP_IOSCHED"
		f.Fix = "boot a kernel with CONFIG_BFQ_GROUP_IOSCHED"
		return f
	case g.Weight.Absent() && g.NoIO != "":
		f.Reason = "the io controller is not handed on in " + g.NoIO
		return c.planWeight(f, g)
	case g.Weight.Absent():
		f.Reason = "the kernel has no such file: bfq is not loaded"
		return c.planWeight(f, g)
	case g.Weight.Err != nil:
		f.Status, f.Reason, f.Fix = StatusUnreadable, g.Weight.Err.Error(), fixAnswer
		return f
	}
	w, err := parseBFQWeights(g.Weight.Value)
	if err != nil {
		f.Status, f.Reason, f.Fix = StatusUnreadable, err.Error(), "report this kernel's format as a bug"
		return f
	}
	f.Got = strconv.FormatUint(w.Default, 10)
	if off := c.deviceOff(w, want); off != "" {
		f.Got += ", " + off
		f.Reason = "a weight of its own for a managed disk overrides the default"
		return c.planWeight(f, g)
	}
	if w.Default != want {
		f.Reason = "the kernel has another weight"
		if g.Unit.Name != "" && c.gen.Weight(g.Unit.IOWeight) == want {
			f.Reason = fmt.Sprintf("systemd says IOWeight=%d, the kernel does not: it was set before bfq was loaded, or overwritten", g.Unit.IOWeight)
		}
		return c.planWeight(f, g)
	}
	if f.Reason = c.doomed(g); f.Reason != "" {
		return c.planWeight(f, g)
	}
	f.Status = StatusOK
	return f
}

// held is the IOWeight that systemd holds for a group.
func (c *checker) held(g Group) string {
	switch {
	case !c.s.Asked:
		return "unknown"
	case g.Unit.IOWeight == WeightUnset:
		return "not set"
	}
	return strconv.FormatUint(g.Unit.IOWeight, 10)
}

// fixStart is how a group comes to be.
func fixStart(g Group) string {
	if g.Role == GroupPods {
		return "wait until k3s runs its first pod, then run: ioprio-agent apply"
	}
	return "run: systemctl start " + g.Name + "; then: ioprio-agent apply"
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

// planWeight makes a finding a drift and plans the write of the weight, unless nobody can make it or it would harm the node.
func (c *checker) planWeight(f Finding, g Group) Finding {
	f.Status, f.Fix = StatusDrift, fixApply
	change := Change{
		Subject: g.Name, Setting: SettingIOWeight, From: c.held(g), To: strconv.FormatUint(c.gen.Send(c.ioWeight(g.Role)), 10),
		Via: ViaSystemd, Target: g.Name, proof: g.Weight.Source,
	}
	switch {
	case g.Unit.Name == "": // no unit owns it, so nobody but the agent writes it
		change.Via, change.Target, change.From, change.To = ViaSysfs, g.Weight.Source, f.Got, f.Want
	case c.s.BusError != nil:
		f.Fix = fixBus
		return f
	case g.Name == kubepodsSlice && g.Unit.FragmentPath == "" && c.s.Asked && !allowsDropIns(c.s.SystemdVersion):
		f.Status = StatusUnsupported
		f.Reason = "systemd " + c.s.SystemdVersion + " could not start this slice again once a drop-in for it exists, and it is not transient"
		f.Fix = "upgrade systemd to 252, 251.8 or 250.9"
		return f
	}
	c.changes = append(c.changes, change)
	return f
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
