package schedulerapi

import (
	"context"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// recheckBudget is how long refusals are judged again at a time, so that it never takes more than a
// small share of the shim's time.
const recheckBudget = 20 * time.Millisecond

// keeper holds the server to what the shim was told. It runs in a goroutine of its own, because
// queueing may wait for the server, and those who call back the shim must not.
type keeper struct {
	rm   *rm
	wake chan struct{}

	mu  sync.Mutex
	due map[string]bool // keys that the server has to be told of; true: it has them elsewhere
}

func newKeeper(rm *rm) *keeper {
	return &keeper{rm: rm, wake: make(chan struct{}, 1), due: map[string]bool{}}
}

// add has the server told where an ask is. If the server has it elsewhere it is released there first.
func (k *keeper) add(key string, elsewhere bool) {
	k.mu.Lock()
	k.due[key] = k.due[key] || elsewhere
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run takes turns until the registration ends.
func (k *keeper) run(ctx context.Context) {
	patience := 2 * k.rm.options.PredicateDeadline
	overdue := time.NewTicker(patience / 4)
	defer overdue.Stop()
	recheck := time.NewTicker(k.rm.options.RecheckInterval)
	defer recheck.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
			k.turn()
		case now := <-overdue.C:
			for _, key := range k.rm.books.overdue(now.Add(-patience)) {
				k.place(key, false)
			}
		case now := <-recheck.C:
			k.recheck(ctx, now)
		}
	}
}

// turn does what was asked for since the last one.
func (k *keeper) turn() {
	k.mu.Lock()
	due := k.due
	k.due = map[string]bool{}
	k.mu.Unlock()
	for key, elsewhere := range due {
		k.place(key, elsewhere)
	}
}

// place tells the server where an ask is, unless the shim has ended it meanwhile.
func (k *keeper) place(key string, elsewhere bool) {
	r := k.rm
	r.order.Lock()
	defer r.order.Unlock()
	allocation := r.books.place(key)
	if allocation == nil {
		return
	}
	if elsewhere {
		r.books.leave(key)
		release := &si.AllocationRelease{
			PartitionName:   allocation.GetPartitionName(),
			ApplicationID:   allocation.GetApplicationID(),
			AllocationKey:   key,
			TerminationType: si.TerminationType_STOPPED_BY_RM,
			Message:         "the allocation is on node " + allocation.GetNodeID(),
		}
		k.send(&si.AllocationRequest{
			Releases: &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release}},
		})
	} else {
		r.log.Info("the server is told where a taken ask is", "allocationKey", key, "node", allocation.GetNodeID())
	}
	k.send(&si.AllocationRequest{Allocations: []*si.Allocation{allocation}})
	r.hook(MetricPlacedAgain, 1)
}

func (k *keeper) send(request *si.AllocationRequest) {
	if err := k.rm.session.UpdateAllocations(request); err != nil {
		k.rm.log.Warn("the server cannot be told where a taken ask is", "error", err)
	}
}

// recheck judges refusals again, each node once, as long as the budget lasts. What is left goes first
// the next time.
func (k *keeper) recheck(ctx context.Context, now time.Time) {
	r := k.rm
	for time.Since(now) < recheckBudget && ctx.Err() == nil {
		node, subject, ok := r.refusals.next(now)
		if !ok {
			return
		}
		key, waits := r.books.member(subject)
		if !waits {
			r.refusals.ended(node, subject)
			continue
		}
		r.deliver.Lock()
		err := r.fits(key, node, true)
		r.deliver.Unlock()
		if err == nil {
			k.reopen(node, now)
		}
	}
}

// reopen makes the server forget what it knows of a node. Two changes that undo each other do that.
// They are put off while something was taken there, because the server would give it up.
func (k *keeper) reopen(node string, now time.Time) {
	r := k.rm
	r.order.Lock()
	defer r.order.Unlock()
	exists, drained := r.books.node(node)
	if !exists || r.books.takenOn(node) {
		return
	}
	there, back := si.NodeInfo_DRAIN_NODE, si.NodeInfo_DRAIN_TO_SCHEDULABLE
	if drained {
		there, back = back, there
	}
	err := r.session.UpdateNodes(&si.NodeRequest{Nodes: []*si.NodeInfo{
		{NodeID: node, Action: there}, {NodeID: node, Action: back},
	}})
	if err != nil {
		r.log.Warn("a node cannot be reopened", "node", node, "error", err)
		return
	}
	r.refusals.reopened(node, now)
	r.hook(MetricReopened, 1)
	r.log.Debug("a node that was refused is accepted now", "node", node)
}
