package licorne

import (
	"maps"
	"strings"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const (
	foreignTag = "foreign"
	// askBack is the termination for an allocation that the RM could not start, which becomes a pending ask
	// again. The published enumeration has no name for this number.
	askBack = si.TerminationType(5)
	// rememberedChanges is the maximum number of unanswered changes of one ask that can be undone.
	rememberedChanges = 8
)

// askState is the variable state of an ask, which is restored if the server refuses a change.
type askState struct {
	// size has the resources of the ask.
	size *si.Resource
	// node is the node to which the ask is allocated; empty while it is pending.
	node string
	// told is true if the handlers have received the allocation.
	told bool
	// echoed is true if the server has sent the allocation in this session.
	echoed bool
}

// knownAsk is an ask that has not ended: pending, or allocated to a node.
type knownAsk struct {
	askState
	// number is the position in the order of submission, in which a replay sends asks.
	number uint64
	app    appKey
	item   *si.Allocation
	// askedAt is the time of the caller's request, in unix seconds.
	askedAt int64
	// checkpoint is the time up to which its work is saved, in unix seconds; 0 if unknown.
	checkpoint int64
	// assumed is the node on which a replay reports a pending ask as allocated; empty for none.
	assumed string
	foreign bool
	// before has the state before each change that the server may still refuse, oldest first.
	before []askState
}

// place returns the node on which a replay reports the ask as allocated; empty if it is reported as pending.
func (a *knownAsk) place(c *cache) string {
	if a.node == "" && a.assumed != "" && c.nodes[a.assumed] != nil {
		return a.assumed
	}
	return a.node
}

// ask records an ask or a running allocation.
func (c *cache) ask(item *si.Allocation, now int64) {
	known := c.asks[item.GetAllocationKey()]
	if known == nil {
		known = c.addAsk(item, now)
	} else {
		c.changeAsk(known, item)
	}
	if unix, _ := checkpointIn(item.GetAllocationTags(), now); unix != 0 && known.node != "" {
		known.checkpoint = unix
	}
}

// changeAsk records a change of a known ask: a new size, or a node on which the RM itself has placed a
// pending ask. All other fields are ignored.
func (c *cache) changeAsk(known *knownAsk, item *si.Allocation) {
	resized := !sameAmounts(known.size, item.GetResourcePerAlloc())
	placed := item.GetNodeID() != "" && (known.node == "" || known.foreign && known.node != item.GetNodeID())
	if !resized && !placed {
		return
	}
	if len(known.before) == rememberedChanges {
		known.before = known.before[1:]
	}
	known.before = append(known.before, known.askState)
	known.size = item.GetResourcePerAlloc()
	if placed {
		c.settle(known, item.GetNodeID())
	}
}

// checkpoint records the time up to which the work of an allocation is saved, in unix seconds. It returns the
// allocation to send to the server; nil if the key has no allocation.
func (c *cache) checkpoint(key string, unix int64) *si.Allocation {
	known := c.asks[key]
	if known == nil || known.node == "" {
		return nil
	}
	known.checkpoint = unix
	replayed := known.replayed(c)
	return replayed.wire()
}

func (c *cache) addAsk(item *si.Allocation, now int64) *knownAsk {
	c.count++
	key := item.GetAllocationKey()
	known := &knownAsk{
		askState: askState{size: item.GetResourcePerAlloc()},
		number:   c.count,
		app:      appKey{c.partition(item.GetPartitionName()), item.GetApplicationID()},
		item:     item,
		askedAt:  now,
		foreign:  isForeign(item),
	}
	c.asks[key] = known
	insert(c.byApp, known.app, key)
	if item.GetNodeID() != "" {
		c.settle(known, item.GetNodeID())
	}
	return known
}

func isForeign(item *si.Allocation) bool {
	for tag := range item.GetAllocationTags() {
		if strings.EqualFold(tag, foreignTag) {
			return true
		}
	}
	return false
}

// settle moves an ask to a node, or back to the pending asks if the node is empty.
func (c *cache) settle(known *knownAsk, node string) {
	key := known.item.GetAllocationKey()
	if known.node != "" {
		discard(c.byNode, known.node, key)
	}
	known.node, known.assumed, known.checkpoint = node, "", 0
	known.told, known.echoed = false, false
	if node != "" {
		insert(c.byNode, node, key)
	}
}

// release records a release by the RM. Without a key, it releases all of the application.
func (c *cache) release(item *si.AllocationRelease) {
	app := appKey{c.partition(item.GetPartitionName()), item.GetApplicationID()}
	if item.GetAllocationKey() == "" {
		for key := range maps.Clone(c.byApp[app]) {
			c.releaseAsk(c.asks[key], item.GetTerminationType())
		}
		return
	}
	known := c.asks[item.GetAllocationKey()]
	if known == nil {
		return
	}
	if known.foreign {
		if app.id == "" {
			c.drop(known)
		}
		return
	}
	if known.app == app {
		c.releaseAsk(known, item.GetTerminationType())
	}
}

func (c *cache) releaseAsk(known *knownAsk, termination si.TerminationType) {
	switch termination {
	case askBack:
		known.assumed = ""
		if known.node != "" {
			c.settle(known, "")
		}
	case si.TerminationType_TIMEOUT:
		// It ends only allocations. An assumed ask is still pending for the server.
		if known.node != "" {
			c.drop(known)
		}
	case si.TerminationType_PREEMPTED_BY_SCHEDULER, si.TerminationType_PLACEHOLDER_REPLACED:
		// A confirmation of a release that the server has requested is not answered.
		c.drop(known)
	default:
		c.expectRelease(known)
	}
}

// expectRelease removes an ask or allocation, and expects the server to confirm the release of an
// allocation. The server does not confirm the release of a pending ask or a foreign allocation.
func (c *cache) expectRelease(known *knownAsk) {
	c.drop(known)
	if known.node == "" || known.foreign {
		return
	}
	partition := defaultPartition
	if known.app.partition != "" {
		partition = c.bare(known.item.GetPartitionName())
	}
	key := known.item.GetAllocationKey()
	c.releasing[key] = &si.AllocationRelease{
		PartitionName:   "[" + c.rmID + "]" + partition,
		ApplicationID:   known.app.id,
		AllocationKey:   key,
		TerminationType: si.TerminationType_STOPPED_BY_RM,
	}
}

// drop removes an ask or allocation from the cache.
func (c *cache) drop(known *knownAsk) {
	key := known.item.GetAllocationKey()
	delete(c.asks, key)
	discard(c.byApp, known.app, key)
	if known.node != "" {
		discard(c.byNode, known.node, key)
	}
}

// assume records the node on which a replay reports a pending ask. It returns false if there is no such ask.
func (c *cache) assume(key, node string) bool {
	known := c.asks[key]
	if known == nil || known.node != "" {
		return false
	}
	known.assumed = node
	return true
}

// allocated applies a new allocation. It returns true if the handlers should receive it: they have not
// received it before, and the ask was not released meanwhile.
func (c *cache) allocated(item *si.Allocation) bool {
	known := c.asks[item.GetAllocationKey()]
	if known == nil {
		return false
	}
	node := item.GetNodeID()
	news := !known.told || known.node != node
	if known.node != node {
		c.settle(known, node)
	}
	known.told, known.echoed = true, true
	for i := range known.before {
		// The ask remains on the node if an earlier change is refused.
		known.before[i].node, known.before[i].told, known.before[i].echoed = node, true, true
	}
	if c.nodes[node] == nil {
		// The node was removed while the answer was on its way; a release follows.
		c.expectRelease(known)
	}
	return news
}

// released applies a release that the server reports or requests. A requested release changes nothing before
// the RM confirms it, except for a timeout of a pending ask: the server has dropped the ask, and needs no
// confirmation.
func (c *cache) released(item *si.AllocationRelease) {
	key := item.GetAllocationKey()
	switch item.GetTerminationType() {
	case si.TerminationType_TIMEOUT:
		if known := c.asks[key]; known != nil && known.node == "" {
			c.drop(known)
		}
		return
	case si.TerminationType_PREEMPTED_BY_SCHEDULER, si.TerminationType_PLACEHOLDER_REPLACED:
		return
	}
	if c.releasing[key] != nil {
		delete(c.releasing, key)
	} else if known := c.asks[key]; known != nil {
		c.drop(known)
	}
}

// rejected applies the refusal of an ask or of a change. An ask that the server has is retained.
func (c *cache) rejected(key string) {
	known := c.asks[key]
	if known == nil {
		return
	}
	if last := len(known.before) - 1; last >= 0 {
		was := known.before[last]
		known.before = known.before[:last]
		if was.node != known.node {
			c.settle(known, was.node)
		}
		known.askState = was
	} else if !known.echoed {
		c.drop(known)
	}
}

func sameAmounts(a, b *si.Resource) bool {
	left, right := a.GetResources(), b.GetResources()
	if len(left) != len(right) {
		return false
	}
	for name, quantity := range left {
		other, found := right[name]
		if !found || quantity.GetValue() != other.GetValue() {
			return false
		}
	}
	return true
}
