package licorne

import (
	"maps"
	"strings"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const (
	foreignTag = "foreign"
	// askBack is the termination by which the RM says that it could not run an allocation: it is a
	// pending ask again. The published enumeration has the number reserved and no name for it.
	askBack = si.TerminationType(5)
	// rememberedChanges of one ask are kept until they are answered; each can be refused by itself.
	rememberedChanges = 8
)

// askState is what changes of an ask, and comes back when the server refuses the change.
type askState struct {
	// size is what it takes.
	size *si.Resource
	// node is the one that it is allocated to; empty while it is pending.
	node string
	// told says whether the handlers have been told of the allocation.
	told bool
	// echoed says whether the server has named the allocation in this session.
	echoed bool
}

// knownAsk is an ask that has not ended: pending, or allocated to a node.
type knownAsk struct {
	askState
	// number rises with every ask; a replay sends them in this order.
	number uint64
	app    appKey
	item   *si.Allocation
	// askedAt is when the caller made it, in unix seconds.
	askedAt int64
	// checkpoint is up to when its work on the node is kept, in unix seconds; 0 if nobody has said it.
	checkpoint int64
	// assumed is the node that a replay puts a pending ask on.
	assumed string
	foreign bool
	// before has the states before each change that the server may still refuse, oldest first.
	before []askState
}

// place is the node that a replay reports the ask on; empty if it reports it as pending.
func (a *knownAsk) place(c *cache) string {
	if a.node == "" && a.assumed != "" && c.nodes[a.assumed] != nil {
		return a.assumed
	}
	return a.node
}

// ask notes an ask or an existing allocation.
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

// changeAsk notes what can change of a known ask: its size, and of a pending one the node, on which the RM
// has placed it itself. All else of it stays.
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

// checkpoint notes up to when the work of an allocation is kept, in unix seconds. It returns the allocation
// as the server is to be told of it; nil if the key is that of none.
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

// settle moves an ask to a node, or with an empty one back to the pending asks.
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

// release notes what the RM gives back. Without a key it is all of the application.
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
		// It ends allocations only. An assumed ask is pending to the server.
		if known.node != "" {
			c.drop(known)
		}
	case si.TerminationType_PREEMPTED_BY_SCHEDULER, si.TerminationType_PLACEHOLDER_REPLACED:
		// A confirmation of what the server has asked for; it is not answered.
		c.drop(known)
	default:
		c.expectRelease(known)
	}
}

// expectRelease forgets an ask or allocation. Of an allocation it remembers that its release is to
// be confirmed. The server confirms none of a pending ask or a foreign allocation.
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

// drop forgets an ask or allocation.
func (c *cache) drop(known *knownAsk) {
	key := known.item.GetAllocationKey()
	delete(c.asks, key)
	discard(c.byApp, known.app, key)
	if known.node != "" {
		discard(c.byNode, known.node, key)
	}
}

// assume notes where a replay puts a pending ask.
func (c *cache) assume(key, node string) bool {
	known := c.asks[key]
	if known == nil || known.node != "" {
		return false
	}
	known.assumed = node
	return true
}

// allocated applies a new allocation. It says whether the handlers are to be told: not of an ask
// that was released meanwhile, and not of what they have been told before.
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
		// The node stays when an earlier change is refused.
		known.before[i].node, known.before[i].told, known.before[i].echoed = node, true, true
	}
	if c.nodes[node] == nil {
		// The node was removed while the answer was on its way; a release follows.
		c.expectRelease(known)
	}
	return news
}

// released applies a release that has happened, or one that the server asks the RM for. The latter
// changes nothing before the RM confirms it. With a timeout the server drops the asks that wait, and no
// confirmation is wanted.
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

// rejected applies the refusal of an ask or of a change of it. What the server has stays as it is.
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
