package sandbox

import (
	"os"
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
		m := meter{tree: t, known: map[int]uint64{}}
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
// belong to it, by id and start time, because one that leaves its session and
// loses its parent cannot be recognised by either any more.
type meter struct {
	tree  *tree
	known map[int]uint64
	seen  int
}

func (m *meter) sample() usage {
	m.seen++
	var u usage
	for _, st := range m.members() {
		m.known[st.pid] = st.start
		if st.state == 'Z' || st.state == 'X' {
			continue
		}
		// What a living process has reaped is in its own sums, and is nowhere else.
		u.cpu += time.Duration(st.utime+st.stime+st.cutime+st.cstime) * time.Second / ticksPerSecond
		u.memory += st.rss * uint64(os.Getpagesize())
		u.processes++
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
		start, known := m.known[st.pid]
		in[st.pid] = st.pid == m.tree.pid || st.session == m.tree.pid || known && start == st.start ||
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
