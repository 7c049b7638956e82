package schedulerapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/common"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// schedulingFailed (SCHEDULING_FAILED_ON_RM in the server's interface) makes an allocation a pending ask
// again. The published Go types have no name for it.
const schedulingFailed = si.TerminationType(5)

// standing is the state of an ask from the shim's point of view.
type standing int

const (
	// unknown: the shim never sent the ask, or has released it.
	unknown standing = iota
	// pending: the shim waits for a node.
	pending
	// taken: the shim was given a node, which the server has not confirmed yet.
	taken
	// placed: shim and server have the same node, or the node was sent to the server.
	placed
)

// ask is an ask or allocation of the shim.
type ask struct {
	allocation *si.Allocation // the last message of the shim
	class      string         // of the asks that are refused by the same nodes; "" shares with none
	standing   standing
	node       string
	since      time.Time // when it was taken
	awaitsEcho bool      // the shim has placed it itself and has not been told that the server knows
	elsewhere  bool      // the server has it on another node, where it has to be released
	leaving    int       // releases on their way of which the shim must not hear
	group      string    // whose placeholder it is; "" for all other asks
}

// books has the asks, allocations and nodes of the shim, as far as the adapter needs them.
type books struct {
	mu      sync.Mutex
	asks    map[string]*ask
	byApp   map[string]map[string]struct{}
	byClass map[string]map[string]struct{}
	taken   map[string]*ask
	drained map[string]bool // every known node; true if it is drained
	// placeholders has the number of placeholders of each group that has any.
	placeholders map[string]int
}

func newBooks() *books {
	return &books{
		asks:    map[string]*ask{},
		byApp:   map[string]map[string]struct{}{},
		byClass: map[string]map[string]struct{}{},
		taken:   map[string]*ask{},
		drained: map[string]bool{},

		placeholders: map[string]int{},
	}
}

// isForeign returns whether another scheduler has made an allocation, which is neither answered nor checked.
func isForeign(allocation *si.Allocation) bool {
	_, foreign := allocation.GetAllocationTags()[common.Foreign]
	return foreign || allocation.GetApplicationID() == ""
}

// note records an ask or allocation that the shim is about to send.
func (b *books) note(allocation *si.Allocation) {
	if isForeign(allocation) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key, app := allocation.GetAllocationKey(), allocation.GetApplicationID()
	known := b.asks[key]
	if known != nil {
		b.unclass(key, known)
		known.allocation, known.class = allocation, classOf(allocation)
		b.inClass(key, known)
		switch node := allocation.GetNodeID(); {
		case node == "":
		case known.standing == pending:
			known.standing, known.node, known.awaitsEcho = placed, node, true
		case known.standing == taken && known.node == node:
			// This request sends the node to the server.
			known.standing = placed
			delete(b.taken, key)
		}
		return
	}
	known = &ask{allocation: allocation, class: classOf(allocation), standing: pending}
	if node := allocation.GetNodeID(); node != "" {
		known.standing, known.node, known.awaitsEcho = placed, node, true
	}
	b.asks[key] = known
	add(b.byApp, app, key)
	b.inClass(key, known)
	b.inGroup(known)
}

// release records a release by the shim.
func (b *books) release(release *si.AllocationRelease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := []string{release.GetAllocationKey()}
	if keys[0] == "" {
		keys = members(b.byApp[release.GetApplicationID()])
	}
	for _, key := range keys {
		known := b.asks[key]
		switch {
		case known == nil:
		case release.GetTerminationType() == schedulingFailed:
			// The shim could not start the allocation, which is a pending ask again.
			known.standing, known.node, known.awaitsEcho, known.elsewhere = pending, "", false, false
			delete(b.taken, key)
		case release.GetTerminationType() == si.TerminationType_TIMEOUT && known.standing == pending:
			// A timeout ends only allocations. A pending ask remains pending.
		default:
			b.drop(key)
		}
	}
}

// removeApplication drops all asks of an application.
func (b *books) removeApplication(app string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range members(b.byApp[app]) {
		b.drop(key)
	}
}

// drop removes an ask. It is called with the lock held.
func (b *books) drop(key string) {
	known := b.asks[key]
	if known == nil {
		return
	}
	delete(b.asks, key)
	delete(b.taken, key)
	remove(b.byApp, known.allocation.GetApplicationID(), key)
	b.unclass(key, known)
	b.ungroup(known)
}

// updateNode records a change of a node by the shim. It drops and returns the asks that were taken on a
// removed node.
func (b *books) updateNode(node *si.NodeInfo) []*si.Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := node.GetNodeID()
	_, exists := b.drained[id]
	switch node.GetAction() {
	case si.NodeInfo_CREATE, si.NodeInfo_CREATE_DRAIN:
		if !exists {
			b.drained[id] = node.GetAction() == si.NodeInfo_CREATE_DRAIN
		}
	case si.NodeInfo_DRAIN_NODE, si.NodeInfo_DRAIN_TO_SCHEDULABLE:
		if exists {
			b.drained[id] = node.GetAction() == si.NodeInfo_DRAIN_NODE
		}
	case si.NodeInfo_DECOMISSION:
		delete(b.drained, id)
		var gone []*si.Allocation
		for key, known := range b.taken {
			if known.node == id {
				gone = append(gone, known.allocation)
				b.drop(key)
			}
		}
		return gone
	}
	return nil
}

// find returns the standing of an ask and its node.
func (b *books) find(key string) (standing, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[key]; known != nil {
		return known.standing, known.node
	}
	return unknown, ""
}

// node returns whether a node exists, and whether it is drained.
func (b *books) node(id string) (exists, drained bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	drained, exists = b.drained[id]
	return exists, drained
}

// take makes a pending ask taken on a node. It returns the allocation for the shim, or nil if the ask or the
// node no longer exists.
func (b *books) take(key, node string, now time.Time) *si.Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	if _, exists := b.drained[node]; !exists || known == nil || known.standing != pending {
		return nil
	}
	known.standing, known.node, known.since = taken, node, now
	b.taken[key] = known
	return onNode(known.allocation, node)
}

// overdue returns the keys of asks that were taken before a time and are not confirmed yet.
func (b *books) overdue(before time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for key, known := range b.taken {
		if known.since.Before(before) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// takenOn returns the keys of asks that were taken on the node and are not confirmed yet.
func (b *books) takenOn(node string) (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, known := range b.taken {
		if known.node == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// place makes a taken or placed ask placed on the shim's node. It returns the allocation for the server, or
// nil if the ask no longer exists, and whether the server must first release it on another node. The shim
// must not receive that release.
func (b *books) place(key string) (allocation *si.Allocation, release bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	if known == nil || known.standing == pending {
		return nil, false
	}
	if _, exists := b.drained[known.node]; !exists {
		return nil, false
	}
	known.standing = placed
	delete(b.taken, key)
	release = known.elsewhere
	if release {
		known.elsewhere = false
		known.leaving++
	}
	return onNode(known.allocation, known.node), release
}

// waiting returns the ask with this key if it is pending, and nil otherwise.
func (b *books) waiting(key string) *si.Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[key]; known != nil && known.standing == pending {
		return known.allocation
	}
	return nil
}

// member returns the key of a pending ask that shares refusals with the subject, which is a class or a key;
// false if there is none.
func (b *books) member(subject string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[subject]; known != nil {
		return subject, known.standing == pending
	}
	for key := range b.byClass[subject] {
		if b.asks[key].standing == pending {
			return key, true
		}
	}
	return "", false
}

// isAlone returns whether an ask shares refusals with no other ask.
func (b *books) isAlone(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	return known != nil && known.class == ""
}

// subject returns the class of an ask, or its key if it shares refusals with no other ask.
func (b *books) subject(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.asks[key]; known != nil && known.class != "" {
		return known.class
	}
	return key
}

func (b *books) inClass(key string, known *ask) {
	if known.class != "" {
		add(b.byClass, known.class, key)
	}
}

func (b *books) unclass(key string, known *ask) {
	if known.class != "" {
		remove(b.byClass, known.class, key)
	}
}

// classOf returns the class of an ask for the server: its tag, its resources and its required node.
func classOf(allocation *si.Allocation) string {
	tags := allocation.GetAllocationTags()
	tag := tags[ClassTag]
	if tag == "" {
		return ""
	}
	resources := allocation.GetResourcePerAlloc().GetResources()
	parts := make([]string, 0, len(resources)+2)
	for name, quantity := range resources {
		parts = append(parts, fmt.Sprintf("%s=%d", name, quantity.GetValue()))
	}
	slices.Sort(parts)
	parts = append(parts, tags[common.DomainYuniKorn+common.KeyRequiredNode], tag)
	return strings.Join(parts, "\x00")
}

// onNode returns a copy of an allocation on a node.
func onNode(allocation *si.Allocation, node string) *si.Allocation {
	return &si.Allocation{
		AllocationKey:    allocation.GetAllocationKey(),
		AllocationTags:   allocation.GetAllocationTags(),
		ResourcePerAlloc: allocation.GetResourcePerAlloc(),
		Priority:         allocation.GetPriority(),
		NodeID:           node,
		ApplicationID:    allocation.GetApplicationID(),
		PartitionName:    allocation.GetPartitionName(),
		TaskGroupName:    allocation.GetTaskGroupName(),
		Placeholder:      allocation.GetPlaceholder(),
		Originator:       allocation.GetOriginator(),
		PreemptionPolicy: allocation.GetPreemptionPolicy(),
	}
}

func add(index map[string]map[string]struct{}, name, key string) {
	if index[name] == nil {
		index[name] = map[string]struct{}{}
	}
	index[name][key] = struct{}{}
}

func remove(index map[string]map[string]struct{}, name, key string) {
	delete(index[name], key)
	if len(index[name]) == 0 {
		delete(index, name)
	}
}

func members(set map[string]struct{}) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	return keys
}
