package schedulerapi

import (
	"context"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// recheckBudget is the time limit of one recheck of refusals, so that rechecks take only a small share of
// the shim's time.
const recheckBudget = 20 * time.Millisecond

// remedy is a way to correct the server about an ask. The greatest one is used.
type remedy int

const (
	// placeIt: send the node of the ask to the server. If the server has it on another node, release it
	// there first.
	placeIt remedy = iota
	// handItBack: the server has allocated the ask to a node that the shim refuses; make it pending again.
	handItBack
	// askAnew: the server has ended the ask, but the shim still waits for a node; submit it again.
	askAnew
	// stopAndAsk: the server requests the end of an allocation that the shim never received; confirm the
	// end, and submit the ask again.
	stopAndAsk
)

// keeper corrects the server where it differs from the shim. It has its own goroutine, because queueing may
// wait for the server, and callbacks of the shim must not wait.
type keeper struct {
	rm   *rm
	wake chan struct{}

	mu  sync.Mutex
	due map[string]remedy // by key
}

func newKeeper(rm *rm) *keeper {
	return &keeper{rm: rm, wake: make(chan struct{}, 1), due: map[string]remedy{}}
}

// add schedules a remedy for an ask.
func (k *keeper) add(key string, remedy remedy) {
	k.mu.Lock()
	k.due[key] = max(k.due[key], remedy)
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
				k.place(key)
			}
		case now := <-recheck.C:
			k.recheck(ctx, now)
		}
	}
}

// turn carries out the scheduled remedies.
func (k *keeper) turn() {
	k.mu.Lock()
	due := k.due
	k.due = map[string]remedy{}
	k.mu.Unlock()
	for key, remedy := range due {
		switch remedy {
		case placeIt:
			k.place(key)
		case handItBack:
			k.handBack(key)
		case askAnew:
			k.ask(key)
		case stopAndAsk:
			k.stopAndAsk(key)
		}
	}
}

// place sends the node of an ask to the server, unless the shim has ended the ask meanwhile.
func (k *keeper) place(key string) {
	r := k.rm
	r.order.Lock()
	defer r.order.Unlock()
	allocation, release := r.books.place(key)
	if allocation == nil {
		return
	}
	if release {
		k.release(allocation, si.TerminationType_STOPPED_BY_RM, "the allocation is on node "+allocation.GetNodeID())
	} else {
		r.log.Info("the server is told where a taken ask is", "allocationKey", key, "node", allocation.GetNodeID())
	}
	k.send(&si.AllocationRequest{Allocations: []*si.Allocation{allocation}})
	r.hook(MetricPlacedAgain, 1)
}

// handBack makes an allocation by the server a pending ask again, unless the shim has ended it meanwhile.
func (k *keeper) handBack(key string) {
	k.rm.order.Lock()
	defer k.rm.order.Unlock()
	if waiting := k.rm.books.waiting(key); waiting != nil {
		k.release(waiting, schedulingFailed, "the resource manager refuses the node by now")
		k.rm.hook(MetricHandedBack, 1)
	}
}

// ask submits an ask again that the server has ended, unless the shim has ended or placed it meanwhile.
func (k *keeper) ask(key string) {
	k.rm.order.Lock()
	defer k.rm.order.Unlock()
	if waiting := k.rm.books.waiting(key); waiting != nil {
		k.send(&si.AllocationRequest{Allocations: []*si.Allocation{waiting}})
	}
}

// stopAndAsk confirms the preemption of an allocation that the shim never received, and submits the ask
// again, unless the shim has ended or placed it meanwhile.
func (k *keeper) stopAndAsk(key string) {
	k.rm.order.Lock()
	defer k.rm.order.Unlock()
	if waiting := k.rm.books.waiting(key); waiting != nil {
		k.release(waiting, si.TerminationType_PREEMPTED_BY_SCHEDULER, "the resource manager never ran it")
		k.send(&si.AllocationRequest{Allocations: []*si.Allocation{waiting}})
	}
}

// release sends the release of an allocation to the server.
func (k *keeper) release(allocation *si.Allocation, termination si.TerminationType, message string) {
	release := &si.AllocationRelease{
		PartitionName:   allocation.GetPartitionName(),
		ApplicationID:   allocation.GetApplicationID(),
		AllocationKey:   allocation.GetAllocationKey(),
		TerminationType: termination,
		Message:         message,
	}
	k.send(&si.AllocationRequest{
		Releases: &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release}},
	})
}

func (k *keeper) send(request *si.AllocationRequest) {
	if err := k.rm.session.UpdateAllocations(request); err != nil {
		k.rm.log.Warn("the server cannot be set right about an ask", "error", err)
	}
}

// recheck checks refusals again, once for each node, until the budget is used up; the next recheck continues
// there. One of the nodes with more refusals than are remembered is reopened without a check; more at a time
// would make the server repeat too many checks.
func (k *keeper) recheck(ctx context.Context, now time.Time) {
	r := k.rm
	if node, ok := r.refusals.overcrowded(now); ok && k.reopen(node) {
		r.refusals.relieved(node)
	}
	for time.Since(now) < recheckBudget && ctx.Err() == nil {
		node, about, ok := r.refusals.next(now)
		if !ok {
			return
		}
		key, waits := r.books.member(about.of)
		if !waits || about.besides && !r.books.replaces(key) {
			r.refusals.ended(node, about)
			continue
		}
		r.deliver.Lock()
		err := r.fits(key, node, !about.besides)
		r.deliver.Unlock()
		if err == nil && k.reopen(node) {
			r.refusals.reopened(node, now)
		}
	}
}

// reopen makes the server drop its refusals of a node, with two changes that cancel each other; false if that
// has to be postponed. The changes also make the server drop unconfirmed allocations on the node. So they are
// postponed while an ask is taken there, and an ask that is taken while they are queued is placed again.
func (k *keeper) reopen(node string) bool {
	r := k.rm
	r.order.Lock()
	defer r.order.Unlock()
	exists, drained := r.books.node(node)
	if !exists || len(r.books.takenOn(node)) > 0 {
		return false
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
		return false
	}
	for _, key := range r.books.takenOn(node) {
		k.add(key, placeIt)
	}
	r.hook(MetricReopened, 1)
	r.log.Debug("the server is to ask about a node again", "node", node)
	return true
}
