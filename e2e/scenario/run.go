package scenario

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Run runs every scenario of a directory on one machine, one after the other.
func Run(t *testing.T, dir string, machine func(t *testing.T) Machine) {
	m := machine(t)
	testscript.RunT(serial{t}, testscript.Params{
		Dir:                dir,
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			if err := m.Reset(); err != nil {
				return fmt.Errorf("bringing the base state back: %w", err)
			}
			e.Vars = append(e.Vars, m.Env()...)
			e.Values[stateKey{}] = &state{machine: m}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if !slices.Contains([]string{"guest", "fake"}, name) {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return name == m.Name(), nil
		},
		Cmds: commands(),
	})
}

// serial is a test whose scripts wait for each other, though testscript asks for parallel ones: there is one machine.
type serial struct{ *testing.T }

func (s serial) Parallel()     {}
func (s serial) Verbose() bool { return testing.Verbose() }
func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

// state is what one script has going.
type state struct {
	machine Machine
	output  []byte                   // what the last agent printed
	watched func() ([]string, error) // ends the watch
}

type stateKey struct{}

func stateOf(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }
