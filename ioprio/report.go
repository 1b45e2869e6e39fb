package ioprio

import (
	"cmp"
	"fmt"
	"slices"
)

// Status is what became of one control.
type Status string

// The statuses, from best to worst. Only ok and skipped let a node pass.
const (
	StatusOK          Status = "ok"
	StatusSkipped     Status = "skipped"     // the policy does not want it on this node
	StatusPending     Status = "pending"     // nothing is wrong, but what it applies to does not exist yet
	StatusDrift       Status = "drift"       // the kernel has another value
	StatusUnsupported Status = "unsupported" // this node cannot have it
	StatusUnreadable  Status = "unreadable"  // the kernel or systemd did not answer
)

// Verdict sums a report up.
type Verdict string

// The verdicts.
const (
	VerdictPass    Verdict = "pass"
	VerdictFail    Verdict = "fail"
	VerdictPending Verdict = "pending"
)

// The settings that a finding can be about.
const (
	SettingScheduler   = "scheduler"
	SettingNrRequests  = "nr_requests"
	SettingIOWeight    = "io_weight"
	SettingWeightRatio = "weight_ratio"
	SettingMainProcess = "main_process"

	settingModule = "module" // of a change only: no finding is about it
)

// Finding is one control: what the policy wants and what the kernel has.
type Finding struct {
	Subject string `json:"subject"` // a disk, a unit or a cgroup
	Setting string `json:"setting"`
	Want    string `json:"want"`
	Got     string `json:"got"`
	Status  Status `json:"status"`
	Source  string `json:"source"` // the file that was read
	Reason  string `json:"reason"` // why it is not ok
	Fix     string `json:"fix"`    // what the operator should do about it

	Note string `json:"-"` // what a reader of text needs beside Want
}

// Report is the answer to whether the kernel has what the policy wants.
type Report struct {
	Schema   int       `json:"schema"` // 1
	Verdict  Verdict   `json:"verdict"`
	Paths    []Path    `json:"paths"`
	Disks    []Disk    `json:"disks"`
	Findings []Finding `json:"findings"`

	changes []Change
}

// Change is one write that would bring the node nearer to the policy.
type Change struct {
	Subject string `json:"subject"`
	Setting string `json:"setting"`
	From    string `json:"from"`
	To      string `json:"to"`
	Via     Via    `json:"via"`
	Target  string `json:"target"` // the module, the file or the unit that is written

	proof     string // the file that a weight must show up in
	under     string // the scheduler that the queue must have for this, if any
	scheduler string // the file that says which it has
}

// Via is how a change reaches the kernel.
type Via string

// The ways to the kernel.
const (
	ViaModule  Via = "module"  // modprobe@MODULE.service, through systemd
	ViaSysfs   Via = "sysfs"   // a write to an attribute file
	ViaSystemd Via = "systemd" // SetUnitProperties
)

// Changes are the writes that Apply would make, in their order: the scheduler's module, each disk's scheduler and then
// what a switch resets, weights.
func (r Report) Changes() []Change { return r.changes }

// verdict sums findings up: one that is not at its target fails the node.
func verdict(findings []Finding) Verdict {
	v := VerdictPass
	for _, f := range findings {
		switch f.Status {
		case StatusOK, StatusSkipped:
		case StatusPending:
			if v == VerdictPass {
				v = VerdictPending
			}
		default:
			return VerdictFail
		}
	}
	return v
}

// Startup is the report with what is pending let through: k3s must start before its pods' cgroup can exist.
func (r Report) Startup() Report {
	if r.Verdict == VerdictPending {
		r.Verdict = VerdictPass
	}
	return r
}

// Explain puts the errors of Apply to the findings that they left behind. A finding that is still wrong without an error
// of its own follows from the first error, since what came after that was not written.
func (r Report) Explain(errs []*ApplyError) Report {
	if len(errs) == 0 {
		return r
	}
	r.Findings = slices.Clone(r.Findings)
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Status == StatusOK || f.Status == StatusSkipped || f.Status == StatusPending {
			continue
		}
		own := slices.IndexFunc(errs, func(e *ApplyError) bool { return e.explains(*f) })
		switch {
		case own >= 0:
			f.Reason = errs[own].Err.Error()
			f.Fix = cmp.Or(errs[own].Fix, f.Fix)
		case f.Fix == fixApply:
			f.Fix = fmt.Sprintf("mend the %s of %s first (%v), then run: ioprio-agent apply", errs[0].Setting, errs[0].Subject, errs[0].Err)
		}
	}
	return r
}
