package ioprio

import (
	"slices"
	"strconv"
	"strings"
)

// ratio checks what decides between etcd and the pods: the weights of siblings below the root.
func (c *checker) ratio(top, pods Group) Finding {
	f := Finding{Subject: top.Name + ":" + pods.Name, Setting: SettingWeightRatio, Source: pods.Weight.Source}
	want := float64(c.want(top)) / float64(c.want(pods))
	f.Want = number(want)
	if f, excused := c.excused(f); excused {
		return f
	}
	over, errOver := parseBFQWeights(top.Weight.Value)
	under, errUnder := parseBFQWeights(pods.Weight.Value)
	for _, g := range []Group{pods, top} {
		if !g.Exists {
			f.Status, f.Reason, f.Source = StatusPending, g.Name+" has no cgroup: there is nothing to compare", g.Weight.Source
			f.Fix = fixStart(g)
			return f
		}
	}
	if errOver != nil {
		f.Source = top.Weight.Source
	}
	if errOver != nil || errUnder != nil {
		f.Status, f.Reason, f.Fix = StatusDrift, "there is no weight to compare", fixApply
		return f
	}
	var ratios []float64
	for _, d := range c.managed {
		ratios = append(ratios, float64(over.On(d.Dev))/float64(under.On(d.Dev)))
	}
	got := slices.Min(ratios)
	f.Got, f.Status = number(got), StatusOK
	switch {
	case want < float64(Piecewise.Weight(c.ioWeight(top.Role)))/float64(Piecewise.Weight(c.ioWeight(pods.Role))):
		f.Status = StatusUnsupported
		f.Reason = "with this systemd the configured weights put k3s less far above the pods than they say"
		f.Fix = "lower weights.kubepods in the configuration"
	case got < want:
		f.Status, f.Reason, f.Fix = StatusDrift, "pods have more weight beside k3s than the policy gives them", fixApply
	}
	return f
}

// number writes a ratio with two digits at most.
func number(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// mainProcess checks that the weight of a unit is the weight of the process that it is for.
func (c *checker) mainProcess(g Group) Finding {
	f := Finding{Subject: g.Name, Setting: SettingMainProcess, Want: g.Unit.ControlGroup, Got: g.MainCgroup.Value, Source: g.MainCgroup.Source}
	switch inert := c.inert(); {
	case inert != "":
		f.Status, f.Reason, f.Fix, f.Want, f.Got = StatusSkipped, inert, fixNone, "", ""
	case !c.s.Asked:
		f.Status, f.Reason, f.Fix = StatusSkipped, "only systemd knows the main process, and a captured tree has none", fixNone
	case c.s.BusError != nil:
		f.Status, f.Reason, f.Fix = StatusUnreadable, c.s.BusError.Error(), fixBus
	case g.Unit.MainPID == 0:
		f.Status, f.Reason, f.Fix = StatusPending, g.Name+" has no main process", "run: systemctl start "+g.Name
	case g.MainCgroup.Err != nil:
		f.Status, f.Reason, f.Fix = StatusUnreadable, g.MainCgroup.Err.Error(), "run: ioprio-agent verify again; the process may have just ended"
	case !below(g.Unit.ControlGroup, g.MainCgroup.Value):
		f.Status, f.Reason = StatusDrift, "the main process lives in another cgroup, so the weight of the unit is not its own"
		f.Fix = "start k3s by its unit, without a wrapper that moves it elsewhere"
	default:
		f.Status = StatusOK
	}
	return f
}

func (c *checker) podsLive() bool {
	return slices.ContainsFunc(c.s.Groups, func(g Group) bool { return g.Role == GroupPods && g.Exists })
}

// noUnit reports that nothing is known that runs k3s.
func (c *checker) noUnit() Finding {
	f := Finding{
		Subject: "k3s.service", Setting: SettingIOWeight, Source: c.s.UnitDir, Status: StatusPending,
		Reason: "no unit that runs k3s was found", Fix: "install k3s, or name its unit as k3s_unit in the configuration",
	}
	if c.p.Unit != "" {
		f.Subject = c.p.Unit
	}
	switch inert := c.inert(); {
	case inert != "":
		f.Status, f.Reason, f.Fix = StatusSkipped, inert, fixNone
	case c.s.BusError != nil:
		f.Status, f.Reason, f.Fix = StatusUnreadable, c.s.BusError.Error(), fixBus
	case c.p.Unit == "" && c.podsLive():
		f.Status, f.Reason = StatusDrift, "pods run here, and no unit that runs k3s was found: it is not protected from them"
		f.Fix = "name the unit of k3s as k3s_unit in the configuration"
	case c.p.Unit != "":
		f.Status, f.Reason = StatusDrift, "the unit that the configuration names does not exist"
		f.Fix = "correct k3s_unit in the configuration, or set it to auto"
	}
	return f
}
