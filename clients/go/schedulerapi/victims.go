package schedulerapi

import (
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// judgedTogether is how many nodes of a preemption check the shim judges at a time, which is what it
// knows from the in-process core.
const judgedTogether = 10

// judgeVictims asks the shim which victims have to go on each node of a preemption check. It returns
// the last one of each node on which the ask can run then. Nodes that the shim did not get to in its
// time are refused, but for the first ones.
func (r *rm) judgeVictims(check *licornev1.PreemptionCheck) map[string]int {
	r.deliver.Lock()
	defer r.deliver.Unlock()
	start := time.Now()
	until := start.Add(r.options.PredicateDeadline / judgingShare)
	last := map[string]int{}
	switch where, _ := r.books.find(check.GetAllocationKey()); where {
	case unknown:
		return last
	case pending:
	default:
		// The server has rolled it back. Nobody has to go for an ask that has its place.
		r.keeper.add(check.GetAllocationKey(), placeIt)
		return last
	}
	for at := 0; at < len(check.GetNodes()) && (at == 0 || time.Now().Before(until)); at += judgedTogether {
		some := check.GetNodes()[at:min(at+judgedTogether, len(check.GetNodes()))]
		r.judgeSome(check.GetAllocationKey(), some, last)
	}
	r.hook(MetricPreemptionCheckSeconds, time.Since(start).Seconds())
	r.hook(MetricNodesRefused, float64(len(check.GetNodes())-len(last)))
	return last
}

// judgeSome judges nodes side by side.
func (r *rm) judgeSome(key string, nodes []*licornev1.NodeVictims, last map[string]int) {
	var mu sync.Mutex
	var judging sync.WaitGroup
	for _, node := range nodes {
		judging.Add(1)
		go func() {
			defer judging.Done()
			if index, fits := r.fitsWithout(key, node); fits {
				mu.Lock()
				last[node.GetNodeId()] = index
				mu.Unlock()
			}
		}()
	}
	judging.Wait()
}

// fitsWithout returns the last victim that has to go so that the ask can run on the node. The shim is
// asked about victims only where there are some: it takes the start index for that of one.
func (r *rm) fitsWithout(key string, node *licornev1.NodeVictims) (index int, fits bool) {
	if exists, _ := r.books.node(node.GetNodeId()); !exists {
		return 0, false
	}
	start := node.GetStartIndex()
	if start < 0 {
		if r.fits(key, node.GetNodeId(), true) == nil {
			return -1, true
		}
		start = 0
	}
	victims := make([]string, 0, len(node.GetVictims()))
	for _, victim := range node.GetVictims() {
		victims = append(victims, victim.GetAllocationKey())
	}
	if len(victims) == 0 {
		return 0, false
	}
	answer := r.callback.PreemptionPredicates(&si.PreemptionPredicatesArgs{
		AllocationKey: key, NodeID: node.GetNodeId(), PreemptAllocationKeys: victims, StartIndex: start,
	})
	return int(answer.GetIndex()), answer.GetSuccess()
}
