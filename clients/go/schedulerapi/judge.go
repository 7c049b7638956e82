package schedulerapi

import (
	"errors"
	"slices"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

const (
	askEnded  = "the ask has ended"
	placedOn  = "the ask is placed on node "
	notJudged = "the shim took too long for the other nodes; this one is judged later"
	// judgingShare is the part of the deadline that one check may take, so that others are judged in
	// time, too.
	judgingShare = 20
)

var errNodeRemoved = errors.New("the node has been removed")

// check judges the nodes of a predicate check. If an allocation is meant and the first node is
// accepted, the shim has the allocation when this returns, unless the ask takes the place of a
// placeholder.
//
// The server may name a thousand nodes. Those that the shim did not get to in its time are refused and
// judged again like all refusals: without any answer the server would ask the same again.
func (r *rm) check(check *licornev1.PredicateCheck) map[string]string {
	r.deliver.Lock()
	defer r.deliver.Unlock()
	start := time.Now()
	until := start.Add(r.options.PredicateDeadline / judgingShare)
	refused := map[string]string{}
	if len(check.GetNodeIds()) == 0 {
		return refused
	}
	where, node := r.books.find(check.GetAllocationKey())
	switch {
	case !check.GetAllocate():
		r.judge(check, check.GetNodeIds(), until, refused)
	case where == unknown:
		r.refuseAll(check, "", askEnded, refused)
	case where == pending && r.books.replaces(check.GetAllocationKey()):
		// It runs when its placeholder has ended, of which the server tells.
		r.judge(check, check.GetNodeIds(), until, refused)
	case where == pending:
		r.judgeToTake(check, until, refused)
	default:
		r.refuseAll(check, node, placedOn+node, refused)
		if check.GetNodeIds()[0] != node {
			r.keeper.add(check.GetAllocationKey(), placeIt)
		}
	}
	r.hook(MetricCheckSeconds, time.Since(start).Seconds())
	r.hook(MetricNodesRefused, float64(len(refused)))
	return refused
}

// dropped sets the server right about an ask that was taken while a new session began: it was replayed
// as one that waits, and nobody wants the answer.
func (r *rm) dropped(check *licornev1.PredicateCheck) {
	if where, _ := r.books.find(check.GetAllocationKey()); where == taken {
		r.keeper.add(check.GetAllocationKey(), placeIt)
	}
}

// judgeToTake takes the ask on the first node if the shim accepts that one. The other nodes are judged
// after it, for asks of the same class.
func (r *rm) judgeToTake(check *licornev1.PredicateCheck, until time.Time, refused map[string]string) {
	key, first, others := check.GetAllocationKey(), check.GetNodeIds()[0], check.GetNodeIds()[1:]
	if r.books.isAlone(key) && r.options.Judge != nil {
		// Nobody of its class is told what becomes of the others once it is taken: one look is enough for all.
		r.judgeAll(check, check.GetNodeIds(), until, refused)
		others = nil
	} else {
		r.judge(check, check.GetNodeIds()[:1], until, refused)
	}
	if _, no := refused[first]; !no && !r.takeOn(key, first) {
		r.refuse(check, first, askEnded, refused)
	}
	r.judge(check, others, until, refused)
}

// judgeAll asks about all nodes at once.
func (r *rm) judgeAll(
	check *licornev1.PredicateCheck, nodes []string, until time.Time, refused map[string]string,
) {
	present := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		exists, _ := r.books.node(node)
		if !exists {
			r.refuse(check, node, errNodeRemoved.Error(), refused)
		}
		return !exists
	})
	if len(present) == 0 {
		return
	}
	found := r.options.Judge(check.GetAllocationKey(), present, until)
	for _, node := range present {
		if err := found[node]; err != nil {
			r.refuse(check, node, err.Error(), refused)
		}
	}
}

// takeOn hands the shim the allocation of an ask; false if the ask or the node has gone meanwhile.
func (r *rm) takeOn(key, node string) bool {
	allocation := r.books.take(key, node, time.Now())
	if allocation == nil {
		return false
	}
	r.session.Assume(key, node)
	r.hook(MetricTaken, 1)
	response := &si.AllocationResponse{New: []*si.Allocation{allocation}}
	r.call("UpdateAllocation", func() error { return r.callback.UpdateAllocation(response) })
	r.refusals.accepted(node)
	return true
}

// judge asks the shim about nodes, as long as there is time. The first node of a check is judged in any
// case.
func (r *rm) judge(
	check *licornev1.PredicateCheck, nodes []string, until time.Time, refused map[string]string,
) {
	if r.options.Judge != nil && check.GetAllocate() {
		r.judgeAll(check, nodes, until, refused)
		return
	}
	for _, node := range nodes {
		if node != check.GetNodeIds()[0] && time.Now().After(until) {
			r.refuse(check, node, notJudged, refused)
		} else if err := r.fits(check.GetAllocationKey(), node, check.GetAllocate()); err != nil {
			r.refuse(check, node, err.Error(), refused)
		}
	}
}

// fits is nil if the shim accepts the node. It is not asked about one that it has removed.
func (r *rm) fits(key, node string, allocate bool) error {
	if exists, _ := r.books.node(node); !exists {
		return errNodeRemoved
	}
	return r.callback.Predicates(&si.PredicatesArgs{AllocationKey: key, NodeID: node, Allocate: allocate})
}

// refuseAll refuses all nodes but one.
func (r *rm) refuseAll(check *licornev1.PredicateCheck, but, reason string, refused map[string]string) {
	for _, node := range check.GetNodeIds() {
		if node != but {
			r.refuse(check, node, reason, refused)
		}
	}
}

// refuse refuses a node, and remembers that for the asks of the same class as long as there is such a
// node. Of the refusals that an ask may go there at all those are remembered that keep it from the place
// of a placeholder: nobody waits for a reservation.
func (r *rm) refuse(check *licornev1.PredicateCheck, node, reason string, refused map[string]string) {
	refused[node] = reason
	key, besides := check.GetAllocationKey(), !check.GetAllocate()
	if besides && !r.books.replaces(key) {
		return
	}
	r.refusals.refused(node, subject{r.books.subject(key), besides}, time.Now())
	// Looked at last, so that a removal meanwhile does not leave the refusal behind.
	if exists, _ := r.books.node(node); !exists {
		r.refusals.removed(node)
	}
}
