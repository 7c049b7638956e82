package schedulerapi

import (
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

// judgedTogether is the number of nodes of a preemption check that the shim checks concurrently, as for the
// in-process core.
const judgedTogether = 10

// judgeVictims asks the shim which victims have to be stopped on each node of a preemption check. It returns
// the position of the last victim by node on which the ask can then run. Nodes for which there is no time are
// refused, except the first judgedTogether.
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
		// The server has reverted the allocation. An ask with a node needs no victims.
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

// judgeSome checks nodes concurrently.
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

// fitsWithout returns the position of the last victim that has to be stopped for the ask on a node. The shim
// is asked about victims only if there are any, because its start index must be that of a victim.
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
