package guest

import (
	"errors"
	"fmt"
	"strings"
)

// checkBase names all in which the guest is not as scenario.Machine says.
func (m *Machine) checkBase() error {
	var off []error
	note := func(format string, args ...any) { off = append(off, fmt.Errorf(format, args...)) }
	for _, path := range []string{"/sys/module/bfq", blacklist, cgroups + "/" + pods, cgroups + "/system.slice/io.bfq.weight"} {
		if exists(path) {
			note("%s is there", path)
		}
	}
	for _, path := range []string{cgroups + "/cgroup.controllers", cgroups + "/system.slice/" + k3s} {
		if !exists(path) {
			note("%s is missing", path)
		}
	}
	for _, disk := range append([]string{"sda"}, spares()...) {
		switch have, err := scheduler(disk); {
		case err != nil:
			off = append(off, err)
		case have != defaultScheduler(disk):
			note("the scheduler of %s is %s", disk, have)
		}
		requests := blocks + disk + "/queue/nr_requests"
		if have := attribute(requests); isSATA(disk) && have != defaultRequests {
			note("%s is %s", requests, have)
		}
	}
	for _, file := range weightFiles() {
		note("%s is there", file)
	}
	for _, unit := range []string{"system.slice", k3s} {
		switch have, err := m.weight(unit); {
		case err != nil:
			off = append(off, err)
		case have != unset:
			note("the IOWeight of %s is %d", unit, have)
		}
	}
	switch state, err := m.unitProperty(k3s, "ActiveState"); {
	case err != nil:
		off = append(off, err)
	case state != "active":
		note("%s is %s", k3s, state)
	}
	switch points, err := mountPoints("/var/lib"); {
	case err != nil:
		off = append(off, err)
	case !strings.Contains(strings.Join(points, "\n")+"\n", "/var/lib/rancher\n"):
		note("nothing is mounted at /var/lib/rancher")
	}
	if len(off) > 0 {
		return fmt.Errorf("the base state: %w", errors.Join(off...))
	}
	return nil
}
