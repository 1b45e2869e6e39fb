package ioprio

// Status is what became of one control.
type Status string

// The statuses, from best to worst. Only OK and SkippedStatus let a node pass.
const (
	OK                Status = "ok"
	SkippedStatus     Status = "skipped"     // the policy does not want it on this node
	Pending           Status = "pending"     // nothing is wrong, but what it applies to does not exist yet
	Drift             Status = "drift"       // the kernel has another value
	UnsupportedStatus Status = "unsupported" // this node cannot have it
	Unreadable        Status = "unreadable"  // the kernel or systemd did not answer
)

// Verdict sums a report up.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Waiting Verdict = "pending"
)

// The settings that a finding can be about.
const (
	SettingScheduler   = "scheduler"
	SettingNrRequests  = "nr_requests"
	SettingIOWeight    = "io_weight"
	SettingWeightRatio = "weight_ratio"
	SettingMainProcess = "main_process"
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

	proof string // the file that a weight must show up in
}

// Via is how a change reaches the kernel.
type Via string

// The ways to the kernel.
const (
	ViaModule  Via = "module"  // modprobe@MODULE.service
	ViaSysfs   Via = "sysfs"   // a write to an attribute file
	ViaSystemd Via = "systemd" // SetUnitProperties
)

// Changes are the writes that Apply would make, in their order: the scheduler's module, each disk's scheduler and then
// what a switch resets, weights.
func (r Report) Changes() []Change { return r.changes }

// verdict sums findings up: one that is not at its target fails the node.
func verdict(findings []Finding) Verdict {
	v := Pass
	for _, f := range findings {
		switch f.Status {
		case OK, SkippedStatus:
		case Pending:
			if v == Pass {
				v = Waiting
			}
		default:
			return Fail
		}
	}
	return v
}

// Startup is the report with what is pending let through: k3s must start before its pods' cgroup can exist.
func (r Report) Startup() Report {
	if r.Verdict == Waiting {
		r.Verdict = Pass
	}
	return r
}

// Explain puts the errors of Apply to the findings that they left behind.
func (r Report) Explain(errs []*ApplyError) Report {
	findings := make([]Finding, len(r.Findings))
	copy(findings, r.Findings)
	for i, f := range findings {
		for _, e := range errs {
			if f.Status != OK && e.Subject == f.Subject && e.Setting == f.Setting {
				findings[i].Reason = e.Err.Error()
				if e.Fix != "" {
					findings[i].Fix = e.Fix
				}
			}
		}
	}
	r.Findings = findings
	return r
}
