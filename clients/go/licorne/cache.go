package licorne

import (
	"strings"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// cache is everything that the RM has told and been told, as far as it has not ended: the source of
// every replay. It is pure bookkeeping, and knows no stream and no clock. The state's lock guards it.
type cache struct {
	rmID string
	// count rises with everything that is added.
	count        uint64
	nodes        map[string]*knownNode
	applications map[appKey]*knownApp
	// namesakes are the applications of one id, at most one for each partition, oldest first. The
	// answers of the server do not name the partition.
	namesakes map[string][]*knownApp
	// asks are the pending asks and the allocations, by key.
	asks map[string]*knownAsk
	// byApp are the keys in asks of each application that has any.
	byApp map[appKey]set
	// byNode are the keys of the allocations on each node that has any.
	byNode map[string]set
	// releasing are the releases that the server has to confirm, by key.
	releasing map[string]*si.AllocationRelease
	// replaying says whether a replay has begun that the server has not found complete yet.
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

// beginReplay notes that the server has dropped everything of this RM. It returns the releases that
// were to be confirmed: they have happened.
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

// endReplay notes that the server has everything again. It returns the applications that are in
// another state now than the handlers were told last.
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

// partition is what the name of a partition means to the server, whatever its case of letters; empty
// for the default one.
func (c *cache) partition(name string) string {
	bare := strings.ToLower(c.bare(name))
	if bare == defaultPartition {
		return ""
	}
	return bare
}

// bare is the name of a partition without the id of the RM.
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
