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
	// judgingShare is the divisor of the deadline for one check, so that other checks are also answered in
	// time.
	judgingShare = 20
)

var errNodeRemoved = errors.New("the node has been removed")

// check answers a predicate check. If the check is for an allocation and its first node is accepted, the shim
// has received the allocation when check returns, unless the ask replaces a placeholder.
//
// A check may have a thousand nodes. Nodes for which there is no time are refused, and checked again like all
// refusals: without an answer the server would repeat the same check.
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
		// It runs after the end of its placeholder, when the server sends its allocation.
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

// dropped corrects the server about an ask that was taken while a new session began: the replay has it as
// pending, and the answer was dropped.
func (r *rm) dropped(check *licornev1.PredicateCheck) {
	if where, _ := r.books.find(check.GetAllocationKey()); where == taken {
		r.keeper.add(check.GetAllocationKey(), placeIt)
	}
}

// judgeToTake takes the ask on the first node if the shim accepts that node. The other nodes are checked
// afterwards, for asks of the same class.
func (r *rm) judgeToTake(check *licornev1.PredicateCheck, until time.Time, refused map[string]string) {
	key, first, others := check.GetAllocationKey(), check.GetNodeIds()[0], check.GetNodeIds()[1:]
	if r.books.isAlone(key) && r.options.Judge != nil {
		// No other ask shares its results, so all nodes can be checked at once.
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

// judgeAll checks all nodes with one call of Options.Judge.
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

// takeOn passes the allocation of an ask to the shim; false if the ask or the node no longer exists.
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

// judge asks the shim about nodes while there is time. The first node of a check is always checked.
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

// fits returns nil if the shim accepts the node, and otherwise the reason. The shim is not asked about a node
// that it has removed.
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

// refuse refuses a node, and remembers the refusal for asks of the same class while the node exists. Refusals
// of a check for a reservation are remembered only if the ask replaces a placeholder: otherwise no ask waits
// for them.
func (r *rm) refuse(check *licornev1.PredicateCheck, node, reason string, refused map[string]string) {
	refused[node] = reason
	key, besides := check.GetAllocationKey(), !check.GetAllocate()
	if besides && !r.books.replaces(key) {
		return
	}
	r.refusals.refused(node, subject{r.books.subject(key), besides}, time.Now())
	// Checked last, so that a removal in the meantime leaves no refusal behind.
	if exists, _ := r.books.node(node); !exists {
		r.refusals.removed(node)
	}
}
