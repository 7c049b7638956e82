package schedulerapi

import (
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// allocations hands the shim what it does not know yet of a response, and sets the server right where
// it put an ask elsewhere.
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

// allocated deals with one new allocation.
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

// judgeLate judges an allocation that rests on an older answer: what was placed since may speak
// against it. If so the server gets it back.
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

// hearing says what the shim knows of an allocation that the server tells of.
type hearing int

const (
	// heardOf: the shim was told, or does not want to know any more.
	heardOf hearing = iota
	// unheardOf: the shim has to be told.
	unheardOf
	// unjudged: the shim has to be told, if it accepts the node.
	unjudged
	// elsewhere: the shim was told of another node.
	elsewhere
)

// allocated notes that the server has allocated an ask, unless that has to be judged. It returns what
// the shim knows of that, and the node that the shim knows.
func (b *books) allocated(key, node string) (hearing, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	switch {
	case known == nil:
		// The shim has released it. The server frees it when it hears of that.
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

// settle makes a pending ask placed; false if the shim has ended it meanwhile.
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

// outcome says what a release by the server means to the shim.
type outcome int

const (
	// ended: the shim has to be told.
	ended outcome = iota
	// inHand: it ends what the server had on another node than the shim was told of.
	inHand
	// stillWaiting: it ends an allocation that the shim was never told of, such as one on a node that
	// was removed meanwhile. The shim goes on waiting.
	stillWaiting
	// neverRan: the server wants the end of an allocation that the shim was never told of, because it
	// refused the node. The server is told that it has ended, and the shim goes on waiting.
	neverRan
	// runsOn: the server has dropped an ask that the shim runs already.
	runsOn
)

// released notes a release of the server.
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
		// The server has ended it by itself. It need not be told to.
		known.elsewhere = false
		return inHand
	case known.standing == pending:
		return stillWaiting
	}
	b.drop(key)
	return ended
}

// toEnd is what it means that the server wants an allocation to end, or drops an ask with a timeout. An
// allocation goes on until the shim agrees.
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

// rejected notes that the server refused an ask. What runs is refused a new size only, and goes on.
func (b *books) rejected(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[key]; known != nil && (known.standing == pending || known.awaitsEcho) {
		b.drop(key)
	}
}
