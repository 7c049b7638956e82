package schedulerapi

import (
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// allocations passes the new parts of a response to the shim, and corrects the server if it has an ask on
// another node.
func (r *rm) allocations(response *si.AllocationResponse) {
	for _, allocation := range response.GetNew() {
		r.allocated(allocation)
	}
	news := &si.AllocationResponse{
		Released:            r.releases(response.GetReleased()),
		RejectedAllocations: r.rejections(response.GetRejectedAllocations()),
	}
	if len(news.Released)+len(news.RejectedAllocations) > 0 {
		r.tell("UpdateAllocation", func() error { return r.callback.UpdateAllocation(news) })
	}
}

// allocated handles one new allocation.
func (r *rm) allocated(allocation *si.Allocation) {
	key, node := allocation.GetAllocationKey(), allocation.GetNodeID()
	told, at := r.books.allocated(key, node)
	switch told {
	case unheardOf:
		r.tellOf(allocation)
	case unjudged:
		r.judgeLate(allocation)
	case elsewhere:
		r.log.Warn("the server put a taken ask on another node; it is moved back",
			"allocationKey", key, "node", at, "server", node)
		r.keeper.add(key, placeIt)
	case heardOf:
	}
}

func (r *rm) tellOf(allocation *si.Allocation) {
	r.tell("UpdateAllocation", func() error {
		return r.callback.UpdateAllocation(&si.AllocationResponse{New: []*si.Allocation{allocation}})
	})
}

// judgeLate checks an allocation that is based on an older answer, because of later allocations on the node.
// If the shim refuses it, it is handed back.
func (r *rm) judgeLate(allocation *si.Allocation) {
	key, node := allocation.GetAllocationKey(), allocation.GetNodeID()
	r.deliver.Lock()
	err := r.fits(key, node, true)
	r.deliver.Unlock()
	if err != nil {
		r.keeper.add(key, handItBack)
	} else if r.books.settle(key, node) {
		r.tellOf(allocation)
	}
}

func (r *rm) releases(releases []*si.AllocationRelease) []*si.AllocationRelease {
	var unheard []*si.AllocationRelease
	for _, release := range releases {
		switch r.books.released(release) {
		case ended:
			unheard = append(unheard, release)
		case stillWaiting:
			r.keeper.add(release.GetAllocationKey(), askAnew)
		case neverRan:
			r.keeper.add(release.GetAllocationKey(), stopAndAsk)
		case runsOn:
			r.keeper.add(release.GetAllocationKey(), placeIt)
		case inHand:
		}
	}
	return unheard
}

func (r *rm) rejections(rejections []*si.RejectedAllocation) []*si.RejectedAllocation {
	for _, rejected := range rejections {
		r.books.rejected(rejected.GetAllocationKey())
	}
	return rejections
}

// hearing is the shim's state of an allocation that the server has sent.
type hearing int

const (
	// heardOf: the shim has received it, or has released it.
	heardOf hearing = iota
	// unheardOf: the shim must receive it.
	unheardOf
	// unjudged: the shim must receive it, if it accepts the node.
	unjudged
	// elsewhere: the shim has the ask on another node.
	elsewhere
)

// allocated records that the server has allocated an ask, unless the shim must first check it. It returns the
// shim's state of the allocation, and the shim's node.
func (b *books) allocated(key, node string) (hearing, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	switch {
	case known == nil:
		// The shim has released it; the server frees it after receiving the release.
		return heardOf, ""
	case known.standing == pending:
		return unjudged, node
	case known.node != node:
		known.elsewhere = true
		return elsewhere, known.node
	}
	delete(b.taken, key)
	known.standing, known.elsewhere = placed, false
	if known.awaitsEcho {
		known.awaitsEcho = false
		return unheardOf, node
	}
	return heardOf, node
}

// settle makes a pending ask placed; false if it is no longer pending.
func (b *books) settle(key, node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	if known == nil || known.standing != pending {
		return false
	}
	known.standing, known.node = placed, node
	return true
}

// outcome is the effect of a release by the server on the shim.
type outcome int

const (
	// ended: the shim must receive it.
	ended outcome = iota
	// inHand: it ends an allocation on another node than the shim's.
	inHand
	// stillWaiting: it ends an allocation that the shim never received, such as one on a node that was removed
	// meanwhile. The ask is still pending for the shim.
	stillWaiting
	// neverRan: the server requests the end of an allocation that the shim never received, because it refused
	// the node. The adapter confirms the end, and the ask is still pending for the shim.
	neverRan
	// runsOn: the server has dropped an ask that the shim already runs.
	runsOn
)

// released records a release by the server.
func (b *books) released(release *si.AllocationRelease) outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := release.GetAllocationKey()
	known := b.asks[key]
	switch {
	case known == nil:
		return ended
	case release.GetTerminationType() != si.TerminationType_STOPPED_BY_RM:
		return b.toEnd(key, known, release.GetTerminationType())
	case known.leaving > 0:
		known.leaving--
		return inHand
	case known.elsewhere:
		// The server has ended it by itself, so no release is sent.
		known.elsewhere = false
		return inHand
	case known.standing == pending:
		return stillWaiting
	}
	b.drop(key)
	return ended
}

// toEnd returns the effect if the server requests the end of an allocation, or drops an ask after a timeout.
// An allocation runs on until the shim confirms the request.
func (b *books) toEnd(key string, known *ask, termination si.TerminationType) outcome {
	timeout, isPlaceholder := termination == si.TerminationType_TIMEOUT, known.allocation.GetPlaceholder()
	switch {
	case timeout && known.standing == pending:
		b.drop(key)
	case timeout && known.standing == taken && !isPlaceholder:
		return runsOn
	case termination == si.TerminationType_PREEMPTED_BY_SCHEDULER && known.standing == pending && !isPlaceholder:
		return neverRan
	}
	return ended
}

// rejected records that the server rejected an ask. For an allocation it only rejects a new size.
func (b *books) rejected(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[key]; known != nil && (known.standing == pending || known.awaitsEcho) {
		b.drop(key)
	}
}
