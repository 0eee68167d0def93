package sandbox

import (
	"os"
	"slices"
	"time"
)

// sampleEvery is how often a tree is measured. Memory can overshoot by what it
// grows in one interval.
const sampleEvery = 40 * time.Millisecond

// ticksPerSecond is the unit of processor times in /proc on every Linux.
const ticksPerSecond = 100

// monitor measures the tree against the ceilings that no kernel holds for a
// tree, and sends the first that is broken. The channel is closed when stop is.
// Without such a ceiling it is nil.
func (t *tree) monitor(l Limits, stop <-chan struct{}) <-chan Cap {
	if l.CPU <= 0 && l.Memory == 0 && l.Processes == 0 {
		return nil
	}
	over := make(chan Cap, 1)
	go func() {
		defer close(over)
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		m := meter{tree: t, known: map[int]spent{}}
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if c := m.sample().over(l); c != "" {
				over <- c
				return
			}
		}
	}()
	return over
}

// usage is what a tree uses.
type usage struct {
	cpu       time.Duration
	memory    uint64
	processes uint64
}

// over is the first ceiling that u breaks.
func (u usage) over(l Limits) Cap {
	switch {
	case l.CPU > 0 && u.cpu >= l.CPU:
		return CapCPU
	case l.Memory > 0 && u.memory > l.Memory:
		return CapMemory
	case l.Processes > 0 && u.processes > l.Processes:
		return CapProcesses
	}
	return ""
}

// meter sums up a tree over time. known holds every process that was seen to
// belong to it, by id, because one that leaves its session and loses its parent
// cannot be recognised by either any more.
type meter struct {
	tree  *tree
	known map[int]spent
	gone  uint64 // ticks of those that were seen and are no longer there
	seen  int
}

// spent is a process as it was seen last.
type spent struct {
	start uint64
	own   uint64 // ticks
}

// sample measures the tree. Processor time is what the control group has used;
// without one, the larger of two sums, each of which can miss something that the
// other has. The one is of what each process has used itself, those that are gone
// included, and misses one that lived between two samples. The other is of what
// each living process has used and has reaped, and misses a process that nobody of
// the tree waited for.
func (m *meter) sample() usage {
	m.seen++
	var u usage
	var own, reaped uint64
	there := make(map[int]spent, len(m.known))
	for _, st := range m.members() {
		there[st.pid] = spent{st.start, st.utime + st.stime}
		own += st.utime + st.stime
		reaped += st.utime + st.stime + st.cutime + st.cstime
		if st.state == 'Z' || st.state == 'X' || slices.Contains(m.tree.helpers, st.pid) {
			continue
		}
		u.memory += st.rss * uint64(os.Getpagesize())
		u.processes++
	}
	for pid, was := range m.known {
		if there[pid].start != was.start {
			m.gone += was.own
		}
	}
	m.known = there
	u.cpu = time.Duration(max(own+m.gone, reaped)) * time.Second / ticksPerSecond
	if m.tree.group != nil {
		u.cpu = max(u.cpu, m.tree.group.cpu())
	}
	return u
}

// members are the processes of the tree. With a control group the kernel knows
// them; without, they are the session, the descendants, those seen before, and
// once a second those that carry the marker.
func (m *meter) members() []stat {
	var all []stat
	if m.tree.group != nil {
		for _, pid := range m.tree.group.pids() {
			if st, ok := readStat(pid); ok {
				all = append(all, st)
			}
		}
		return all
	}
	for _, pid := range m.tree.newer() {
		if st, ok := readStat(pid); ok {
			all = append(all, st)
		}
	}
	marked := m.seen%int(time.Second/sampleEvery) == 0
	in := map[int]bool{}
	for _, st := range all {
		was, known := m.known[st.pid]
		in[st.pid] = st.pid == m.tree.pid || st.session == m.tree.pid || known && was.start == st.start ||
			marked && m.tree.carriesMarker(st.pid)
	}
	for grown := true; grown; {
		grown = false
		for _, st := range all {
			if !in[st.pid] && in[st.ppid] {
				in[st.pid], grown = true, true
			}
		}
	}
	var out []stat
	for _, st := range all {
		if in[st.pid] {
			out = append(out, st)
		}
	}
	return out
}
