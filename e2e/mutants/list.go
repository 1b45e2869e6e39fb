package main

// mutants are the rules that decide whether verify tells the truth and apply does no harm.
func mutants() []mutant {
	return []mutant{
		{
			"weights are read from io.bfq.weight, not io.weight", "ioprio/group.go",
			`readAttr(h.cgroup(g.Cgroup, "io.bfq.weight"))`, `readAttr(h.cgroup(g.Cgroup, "io.weight"))`,
		},
		{
			"a wrong weight is drift whatever systemd says", "ioprio/check_weights.go",
			`if w.Default != want {`, `if w.Default != want && g.Unit.IOWeight != c.ioWeight(g.Role) {`,
		},
		{
			"a device's own weight counts", "ioprio/check_weights.go",
			`if off := c.deviceOff(w, want); off != "" {`, `if off := c.deviceOff(w, want); off == "never" {`,
		},
		{
			"what is pending does not pass", "ioprio/report.go",
			`			if v == VerdictPass {`, `			if v == VerdictFail {`,
		},
		{
			"nr_requests is written again after a switch", "ioprio/check.go",
			`(got == want && !switched)`, `got == want`,
		},
		{
			"nothing more is written to a disk whose switch failed", "ioprio/apply.go",
			`active != c.under {`, `active == "never" {`,
		},
		{
			"the module is loaded before the queue is touched", "ioprio/apply.go",
			`if c.Via == ViaModule {`, `if c.Via == "never" {`,
		},
		{
			"what is right is not written", "ioprio/apply.go",
			`if err != nil || valueOf(c, now) == c.To {`, `if err != nil {`,
		},
		{
			"a unit that stopped is left alone", "ioprio/apply.go",
			`if !u.Active() {`, `if u.Name == "never" {`,
		},
		{
			"NVMe is skipped", "ioprio/disk.go",
			`case slices.Contains(on, "nvme") || slices.Contains(on, "nvme-subsystem"):`, `case slices.Contains(on, "never"):`,
		},
		{
			"iSCSI volumes are not disks of the node", "ioprio/disk.go",
			`case slices.ContainsFunc(on, iscsiSession.MatchString), strings.Contains(model, "VIRTUAL-DISK"):`, `case strings.Contains(model, "never"):`,
		},
		{
			"zoned disks keep their scheduler", "ioprio/disk.go",
			`zoned.Value != "none" {`, `zoned.Value == "never" {`,
		},
		{
			"the last mount on a directory is the visible one", "ioprio/mountinfo.go",
			`at = over[len(over)-1]`, `at = over[0]`,
		},
		{
			"escapes are decoded once", "ioprio/mountinfo.go",
			`root: unescape(fields[3]), point: unescape(fields[4]),`, `root: unescape(fields[3]), point: unescape(unescape(fields[4])),`,
		},
		{
			"every slave is followed", "ioprio/walk.go",
			`for _, slave := range slaves {`, `for _, slave := range slaves[:1] {`,
		},
		{
			"request-based multipath is a leaf", "ioprio/walk.go",
			`if len(slaves) == 0 || isRequestBasedMultipath(dir) {`, `if len(slaves) == 0 {`,
		},
		{
			"every btrfs member is a member", "ioprio/walk.go",
			`if slices.Contains(devs, dev) || (nodeErr != nil && len(all) == 1) {`, `if devs = devs[:1]; slices.Contains(devs, dev) || (nodeErr != nil && len(all) == 1) {`,
		},
		{
			"a container is refused", "ioprio/observe.go",
			`		if found {`, `		if found && mark == "never" {`,
		},
		{
			"the main process must live in the unit's cgroup", "ioprio/check_effect.go",
			`case !below(g.Unit.ControlGroup, g.MainCgroup.Value):`, `case false:`,
		},
		{
			"an RKE2 node that runs is refused", "ioprio/observe.go",
			`(rke2.Active() || len(units) == 0)`, `len(units) == 0`,
		},
		{
			"units that do not run give way to one that does", "ioprio/observe.go",
			`if len(active) > 0 {`, `if len(active) > 9 {`,
		},
		{
			"a cgroup of a unit that does not run is a decoy", "ioprio/group.go",
			`		u.ControlGroup = ""`, `		u.MainPID = 0`,
		},
		{
			"every level competes with the pods that is right below the root", "ioprio/check_weights.go",
			`top.Role != GroupPods && top.Top()`, `top.Role == GroupSlice && top.Top()`,
		},
		{
			"siblings tell the generation", "ioprio/check_weights.go",
			`slices.Concat(c.s.Groups, c.s.Siblings)`, `c.s.Groups`,
		},
		{
			"what could not be done is the reason of what follows", "ioprio/report.go",
			`		case f.Fix == fixApply:`, `		case f.Fix == "never":`,
		},
		{
			"a kernel's default weight is no evidence", "ioprio/weight.go",
			`return e.kernel != defaultBFQWeight`, `return true`,
		},
	}
}
