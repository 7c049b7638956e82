package schedulerapi

import (
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// allocations hands the shim what it does not know yet of a response, and sets the server right where
// it put an ask elsewhere.
func (r *rm) allocations(response *si.AllocationResponse) {
	news := &si.AllocationResponse{
		New:                 r.news(response.GetNew()),
		Released:            r.releases(response.GetReleased()),
		RejectedAllocations: r.rejections(response.GetRejectedAllocations()),
	}
	if len(news.New)+len(news.Released)+len(news.RejectedAllocations) == 0 {
		return
	}
	r.tell("UpdateAllocation", func() error { return r.callback.UpdateAllocation(news) })
}

func (r *rm) news(allocations []*si.Allocation) []*si.Allocation {
	var unheard []*si.Allocation
	for _, allocation := range allocations {
		key, node := allocation.GetAllocationKey(), allocation.GetNodeID()
		told, at := r.books.allocated(key, node)
		switch told {
		case unheardOf:
			unheard = append(unheard, allocation)
		case elsewhere:
			r.log.Warn("the server put a taken ask on another node; it is moved back",
				"allocationKey", key, "node", at, "server", node)
			r.keeper.add(key, true)
		case heardOf:
		}
	}
	return unheard
}

func (r *rm) releases(releases []*si.AllocationRelease) []*si.AllocationRelease {
	var unheard []*si.AllocationRelease
	for _, release := range releases {
		if r.books.released(release) {
			unheard = append(unheard, release)
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
	// elsewhere: the shim was told of another node.
	elsewhere
)

// allocated notes that the server has allocated an ask. It returns what the shim knows of that, and
// the node that the shim knows.
func (b *books) allocated(key, node string) (hearing, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	switch {
	case known == nil:
		// The shim has released it. The server frees it when it hears of that.
		return heardOf, ""
	case known.standing == pending:
		known.standing, known.node = placed, node
		return unheardOf, node
	case known.node != node:
		return elsewhere, known.node
	}
	delete(b.taken, key)
	known.standing = placed
	if known.awaitsEcho {
		known.awaitsEcho = false
		return unheardOf, node
	}
	return heardOf, node
}

// released notes a release of the server; whether the shim has to be told.
func (b *books) released(release *si.AllocationRelease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := release.GetAllocationKey()
	known := b.asks[key]
	if known == nil || release.GetTerminationType() != si.TerminationType_STOPPED_BY_RM {
		// What the server wants to end goes on until the shim agrees.
		return true
	}
	if known.leaving > 0 {
		known.leaving--
		return false
	}
	b.drop(key)
	return true
}

// rejected notes that the server refused an ask. What runs is refused a new size only, and goes on.
func (b *books) rejected(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[key]; known != nil && (known.standing == pending || known.awaitsEcho) {
		b.drop(key)
	}
}
