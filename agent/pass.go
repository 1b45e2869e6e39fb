package agent

import (
	"context"
	"strings"

	"github.com/ioprio-agent/ioprio-agent/ioprio"
)

// Verify is one read-only pass.
func Verify(ctx context.Context, h ioprio.Host, p ioprio.Policy) (ioprio.Report, error) {
	state, err := ioprio.Observe(ctx, h, p)
	if err != nil {
		return ioprio.Report{}, err
	}
	return ioprio.Check(p, state), nil
}

// Enforce is one pass that changes what is not as the policy wants it. The report is that of a second look: what the
// kernel has after the changes, with their errors as the reasons of what is still wrong. On a node that is right nothing is
// written and the first look counts. The changes are told to before, which may be nil, when they are about to be made.
func Enforce(ctx context.Context, h ioprio.Host, p ioprio.Policy, before func([]ioprio.Change)) (ioprio.Report, error) {
	report, err := Verify(ctx, h, p)
	if err != nil || len(report.Changes()) == 0 {
		return report, err
	}
	if before != nil {
		before(report.Changes())
	}
	errs := ioprio.Apply(ctx, h, report.Changes())
	report, err = Verify(ctx, h, p)
	if err != nil {
		return ioprio.Report{}, &ChangedError{Applied: errs, Err: err}
	}
	return report.Explain(errs), nil
}

// ChangedError says that the node was changed and then could not be observed.
type ChangedError struct {
	Applied []*ioprio.ApplyError // what went wrong with the changes
	Err     error                // why there is no report
}

func (e *ChangedError) Error() string {
	texts := []string{"the node was changed, and then: " + e.Err.Error()}
	for _, a := range e.Applied {
		texts = append(texts, a.Error())
	}
	return strings.Join(texts, "; ")
}

func (e *ChangedError) Unwrap() error { return e.Err }
