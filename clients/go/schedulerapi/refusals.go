package schedulerapi

import (
	"sync"
	"time"
)

const (
	// subjectsKept is the maximum number of remembered refusals of a node; beyond it the oldest is dropped.
	// Without a limit, all pending pods could be remembered for all nodes.
	subjectsKept = 32
	// longestWait is the longest time until a node that was reopened in vain is checked again, and the time
	// until a node with more refusals than are remembered is reopened.
	longestWait = time.Minute
)

// refusals remembers the refused nodes, so that they can be checked again. The nodes are checked in turn,
// each for one of its refused asks.
type refusals struct {
	mu    sync.Mutex
	nodes map[string]*refusedNode
	queue []string // ids of nodes, each once
	first time.Duration
}

// subject is the ask or class of asks for which a node was refused.
type subject struct {
	of string // a class or a key
	// besides is true if the check ignored the current allocations on the node.
	besides bool
}

type refusedNode struct {
	subjects []subject // those next to be judged first
	wait     time.Duration
	notYet   time.Time
	crowded  time.Time // since when a refusal has given way; zero if none has
}

func newRefusals(interval time.Duration) *refusals {
	return &refusals{nodes: map[string]*refusedNode{}, first: interval}
}

// refused records that a node was refused for a subject.
func (f *refusals) refused(node string, about subject, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.nodes[node]
	if known == nil {
		known = &refusedNode{wait: f.first}
		f.nodes[node] = known
		f.queue = append(f.queue, node)
	}
	for _, other := range known.subjects {
		if other == about {
			return
		}
	}
	if len(known.subjects) == subjectsKept {
		known.subjects = known.subjects[1:]
		if known.crowded.IsZero() {
			known.crowded = now
		}
	}
	known.subjects = append(known.subjects, about)
}

// accepted records that an ask was placed on the node, so that reopening it was not in vain.
func (f *refusals) accepted(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.nodes[node]; known != nil {
		known.wait = f.first
	}
}

// next returns the next node to check, with a subject; false if none is due. A node is returned once in a
// pass, which began at the given time, and again after ended.
func (f *refusals) next(pass time.Time) (node string, about subject, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range len(f.queue) {
		node = f.queue[0]
		f.queue = append(f.queue[1:], node)
		known := f.nodes[node]
		if len(known.subjects) == 0 || pass.Before(known.notYet) {
			continue
		}
		known.notYet = pass.Add(f.first / 2)
		about = known.subjects[0]
		known.subjects = append(known.subjects[1:], about)
		return node, about, true
	}
	return "", about, false
}

// ended drops a subject of a node, because none of its asks is pending.
func (f *refusals) ended(node string, about subject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.nodes[node]
	if known == nil {
		return
	}
	for i, other := range known.subjects {
		if other == about {
			known.subjects = append(known.subjects[:i], known.subjects[i+1:]...)
			break
		}
	}
	known.notYet = time.Time{}
}

// overcrowded returns the node that has had too many refusals for the longest time; false if none is due. If
// it is not reopened, it is returned again after longestWait.
func (f *refusals) overcrowded(now time.Time) (node string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first *refusedNode
	for name, known := range f.nodes {
		if known.crowded.IsZero() || now.Before(known.crowded.Add(longestWait)) {
			continue
		}
		if first == nil || known.crowded.Before(first.crowded) {
			node, first = name, known
		}
	}
	if first == nil {
		return "", false
	}
	first.crowded = now
	return node, true
}

// relieved drops all refusals of a node that was reopened because it had too many.
func (f *refusals) relieved(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.nodes[node]; known != nil {
		known.subjects, known.crowded = nil, time.Time{}
	}
}

// reopened drops all refusals of a node. If that was in vain, the next time is delayed more.
func (f *refusals) reopened(node string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.nodes[node]; known != nil {
		known.subjects, known.crowded = nil, time.Time{}
		known.notYet = now.Add(known.wait)
		known.wait = min(2*known.wait, longestWait)
	}
}

// removed drops a node.
func (f *refusals) removed(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes[node] == nil {
		return
	}
	delete(f.nodes, node)
	for i, other := range f.queue {
		if other == node {
			f.queue = append(f.queue[:i], f.queue[i+1:]...)
			return
		}
	}
}
