package ioprio

import (
	"fmt"
	"strconv"
	"strings"
)

// BFQWeights is the content of a cgroup's io.bfq.weight (block/bfq-cgroup.c): 1 to 1000, 100 by default.
type BFQWeights struct {
	Default uint64
	Devices map[string]uint64 // by MAJ:MIN; these override the default on their device
}

// parseBFQWeights reads "default N" and then "MAJ:MIN N" lines, and the bare number of kernels before 5.4.
func parseBFQWeights(text string) (BFQWeights, error) {
	var w BFQWeights
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseUint(fields[len(fields)-1], 10, 64)
		switch {
		case err != nil || n < 1 || n > 1000:
			return BFQWeights{}, fmt.Errorf("%q is no BFQ weight", strings.TrimSpace(line))
		case len(fields) == 1 && w.Default == 0, len(fields) == 2 && fields[0] == "default":
			w.Default = n
		case len(fields) == 2 && isDev(fields[0]):
			if w.Devices == nil {
				w.Devices = make(map[string]uint64)
			}
			w.Devices[fields[0]] = n
		default:
			return BFQWeights{}, fmt.Errorf("%q is no BFQ weight", strings.TrimSpace(line))
		}
	}
	if w.Default == 0 {
		return BFQWeights{}, fmt.Errorf("no default weight in %q", text)
	}
	return w, nil
}

// On is the weight that counts on a device, named MAJ:MIN.
func (w BFQWeights) On(dev string) uint64 {
	if n, ok := w.Devices[dev]; ok {
		return n
	}
	return w.Default
}

// Generation is the way a systemd turns IOWeight into io.bfq.weight. Distributions patch it, so it is probed from what
// the kernel holds and never inferred from a version (src/basic/cgroup-util.h BFQ_WEIGHT and its predecessors).
type Generation int

// The three generations of upstream systemd.
const (
	Piecewise Generation = iota // v248.10, v249.8, v250 and their successors: 1..100 unchanged, 100..10000 to 100..1000
	Tenth                       // v246.11 and v247.4 on, v248 to v248.9, v249 to v249.7: a tenth, rounded up
	Raw                         // v243 to v245.9, v246 to v246.10, v247 to v247.3, RHEL 8: unchanged, so that over 1000 the kernel refuses it in silence
)

// Weight is the io.bfq.weight that this generation writes for an IOWeight, or 0 where the kernel refuses it.
func (g Generation) Weight(ioWeight uint64) uint64 {
	switch {
	case g == Tenth:
		return (ioWeight + 9) / 10
	case g == Raw && ioWeight > maxBFQWeight:
		return 0
	case g == Piecewise && ioWeight > 100:
		return 100 + (ioWeight-100)/11
	}
	return ioWeight
}

const maxBFQWeight = 1000

// Send is the IOWeight to set so that the policy's IOWeight lands: Raw can land no more than 1000.
func (g Generation) Send(ioWeight uint64) uint64 {
	if g == Raw {
		return min(ioWeight, maxBFQWeight)
	}
	return ioWeight
}

// Landed is the io.bfq.weight that the policy's IOWeight amounts to.
func (g Generation) Landed(ioWeight uint64) uint64 { return g.Weight(g.Send(ioWeight)) }

// evidence is a weight that systemd holds for a unit and the weight that the kernel holds for its cgroup.
type evidence struct {
	ioWeight uint64
	kernel   uint64
}

// strong reports whether the kernel's weight was written. 100 is what it gives every cgroup when bfq is loaded, so an
// IOWeight of before shows as 100 whatever it is.
func (e evidence) strong() bool { return e.kernel != defaultBFQWeight }

const defaultBFQWeight = 100

// probe is the generation that explains most of the strong evidence; the newest of equals.
func probe(list []evidence) Generation {
	best, most := Piecewise, -1
	for _, g := range []Generation{Piecewise, Tenth, Raw} {
		explained := 0
		for _, e := range list {
			if e.strong() && g.Weight(e.ioWeight) == e.kernel {
				explained++
			}
		}
		if explained > most {
			best, most = g, explained
		}
	}
	return best
}
