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

// remedy is what sets the server right about an ask. The greatest counts.
type remedy int

const (
	// placeIt: the server is told where the ask is. If it has it on another node, it is released
	// there first.
	placeIt remedy = iota
	// handItBack: the server has allocated it where the shim refuses it. It is an ask again.
	handItBack
	// askAnew: the server has ended it, and the shim still waits for a node.
	askAnew
	// stopAndAsk: the server wants the end of what the shim never ran. It is told that it has ended, and
	// asked again.
	stopAndAsk
)

// keeper holds the server to what the shim was told. It runs in a goroutine of its own, because
// queueing may wait for the server, and those who call back the shim must not.
type keeper struct {
	rm   *rm
	wake chan struct{}

	mu  sync.Mutex
	due map[string]remedy // by key
}

func newKeeper(rm *rm) *keeper {
	return &keeper{rm: rm, wake: make(chan struct{}, 1), due: map[string]remedy{}}
}

// add has the server set right about an ask.
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

// turn does what was asked for since the last one.
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

// place tells the server where an ask is, unless the shim has ended it meanwhile.
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

// handBack makes an allocation of the server's an ask again, unless the shim has ended it meanwhile.
func (k *keeper) handBack(key string) {
	k.rm.order.Lock()
	defer k.rm.order.Unlock()
	if waiting := k.rm.books.waiting(key); waiting != nil {
		k.release(waiting, schedulingFailed, "the resource manager refuses the node by now")
		k.rm.hook(MetricHandedBack, 1)
	}
}

// ask asks the server again for what it has ended, unless the shim has ended it or placed it itself
// meanwhile.
func (k *keeper) ask(key string) {
	k.rm.order.Lock()
	defer k.rm.order.Unlock()
	if waiting := k.rm.books.waiting(key); waiting != nil {
		k.send(&si.AllocationRequest{Allocations: []*si.Allocation{waiting}})
	}
}

// stopAndAsk confirms a preemption of what the shim never ran, and asks for it again, unless the shim
// has ended it or placed it itself meanwhile.
func (k *keeper) stopAndAsk(key string) {
	k.rm.order.Lock()
	defer k.rm.order.Unlock()
	if waiting := k.rm.books.waiting(key); waiting != nil {
		k.release(waiting, si.TerminationType_PREEMPTED_BY_SCHEDULER, "the resource manager never ran it")
		k.send(&si.AllocationRequest{Allocations: []*si.Allocation{waiting}})
	}
}

// release releases an allocation at the server.
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

// recheck judges refusals again, each node once, as long as the budget lasts. What is left goes first
// the next time. Of the nodes that have more refusals than are remembered, one is reopened without
// being judged: more at a time would have the server ask about everything again and again.
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

// reopen makes the server forget what it knows of a node; false if that has to be put off. Two changes
// that undo each other do that. The server gives up what it has not confirmed there. So they are put
// off while something is taken there, and what is taken while they are queued is placed.
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
