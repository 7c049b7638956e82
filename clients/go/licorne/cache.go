package licorne

import (
	"strings"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// cache has all items of the RM that have not ended, as sent and received: the source of every replay. It has
// no access to streams or the clock. The state's lock guards it.
type cache struct {
	rmID string
	// count rises with every added item.
	count        uint64
	nodes        map[string]*knownNode
	applications map[appKey]*knownApp
	// namesakes has the applications by id, at most one in each partition, oldest first. The server's
	// answers do not name the partition.
	namesakes map[string][]*knownApp
	// asks has the pending asks and the allocations, by key.
	asks map[string]*knownAsk
	// byApp has the keys of the asks and allocations of each application; there are no empty sets.
	byApp map[appKey]set
	// byNode has the keys of the allocations on each node; there are no empty sets.
	byNode map[string]set
	// releasing has the releases that the server has not confirmed, by key.
	releasing map[string]*si.AllocationRelease
	// replaying is true from the begin of a replay until the server confirms that it is complete.
	replaying bool
}

type set map[string]struct{}

func newCache(rmID string) *cache {
	return &cache{
		rmID:         rmID,
		nodes:        make(map[string]*knownNode),
		applications: make(map[appKey]*knownApp),
		namesakes:    make(map[string][]*knownApp),
		asks:         make(map[string]*knownAsk),
		byApp:        make(map[appKey]set),
		byNode:       make(map[string]set),
		releasing:    make(map[string]*si.AllocationRelease),
	}
}

// beginReplay records that the server has dropped all state of this RM. It returns the unconfirmed releases,
// which are now complete.
func (c *cache) beginReplay() []*si.AllocationRelease {
	c.replaying = true
	for _, known := range c.nodes {
		known.accepted, known.unanswered = false, 1
	}
	for _, known := range c.applications {
		known.accepted, known.unanswered, known.heard = false, 1, nil
	}
	for _, known := range c.asks {
		known.echoed, known.before = false, nil
	}
	released := make([]*si.AllocationRelease, 0, len(c.releasing))
	for _, release := range c.releasing {
		released = append(released, release)
	}
	clear(c.releasing)
	return released
}

// endReplay records that the replay is complete. It returns the applications whose state differs from the
// last one that was passed to the handlers.
func (c *cache) endReplay() []*si.UpdatedApplication {
	c.replaying = false
	var updated []*si.UpdatedApplication
	for _, known := range sortedApps(c.applications) {
		if known.heard != nil && known.heard.GetState() != known.toldState {
			known.toldState = known.heard.GetState()
			updated = append(updated, known.heard)
		}
	}
	return updated
}

// partition returns the canonical name of a partition: in lower case, without the id of the RM, and empty for
// the default partition.
func (c *cache) partition(name string) string {
	bare := strings.ToLower(c.bare(name))
	if bare == defaultPartition {
		return ""
	}
	return bare
}

// bare returns the name of a partition without the id of the RM.
func (c *cache) bare(name string) string {
	if strings.HasPrefix(name, "[") {
		return strings.TrimPrefix(name, "["+c.rmID+"]")
	}
	return name
}

const defaultPartition = "default"

func insert[K comparable](index map[K]set, at K, key string) {
	keys := index[at]
	if keys == nil {
		keys = make(set)
		index[at] = keys
	}
	keys[key] = struct{}{}
}

func discard[K comparable](index map[K]set, at K, key string) {
	keys := index[at]
	delete(keys, key)
	if len(keys) == 0 {
		delete(index, at)
	}
}
