package licorne

import "github.com/apache/yunikorn-scheduler-interface/lib/go/si"

// knownNode is a node that was added and has not been removed.
type knownNode struct {
	// number rises with every node that is added; a replay sends them in this order.
	number uint64
	// created is what the node was added with.
	created *si.NodeInfo
	// capacity is what was said of it last.
	capacity *si.Resource
	// drained says whether it takes no new allocations.
	drained bool
	// unanswered counts the additions that the server has not answered in this session.
	unanswered int
	// accepted says whether the server has accepted it in this session.
	accepted bool
	// told says whether the handlers have been told of an acceptance; they are told once.
	told bool
}

// info is the node as a replay adds it. It shares its parts with what the caller gave.
func (n *knownNode) info() *si.NodeInfo {
	info := &si.NodeInfo{
		NodeID:              n.created.GetNodeID(),
		Action:              si.NodeInfo_CREATE,
		Attributes:          n.created.GetAttributes(),
		SchedulableResource: n.capacity,
	}
	if n.drained {
		info.Action = si.NodeInfo_CREATE_DRAIN
	}
	return info
}

// node notes an addition, a change or the removal of a node. The server ignores changes of nodes
// that it does not have.
func (c *cache) node(item *si.NodeInfo) {
	id := item.GetNodeID()
	known := c.nodes[id]
	switch item.GetAction() {
	case si.NodeInfo_CREATE, si.NodeInfo_CREATE_DRAIN:
		c.addNode(known, item)
		return
	case si.NodeInfo_DECOMISSION:
		if known != nil {
			delete(c.nodes, id)
			for key := range c.byNode[id] {
				c.expectRelease(c.asks[key])
			}
		}
		return
	}
	if known == nil {
		return
	}
	switch item.GetAction() {
	case si.NodeInfo_UPDATE:
		if item.GetSchedulableResource() != nil {
			known.capacity = item.GetSchedulableResource()
		}
	case si.NodeInfo_DRAIN_NODE:
		known.drained = true
	case si.NodeInfo_DRAIN_TO_SCHEDULABLE:
		known.drained = false
	}
}

// addNode notes an addition. The server rejects that of a node which it has, so that nothing of a
// node changes after its acceptance.
func (c *cache) addNode(known *knownNode, item *si.NodeInfo) {
	if known == nil {
		c.count++
		known = &knownNode{number: c.count}
		c.nodes[item.GetNodeID()] = known
	}
	known.unanswered++
	if !known.accepted && !known.told {
		known.created = item
		known.capacity = item.GetSchedulableResource()
		known.drained = item.GetAction() == si.NodeInfo_CREATE_DRAIN
	}
}

// nodeAccepted applies an answer of the server. It says whether the handlers are to be told.
func (c *cache) nodeAccepted(id string) bool {
	known := c.nodes[id]
	if known == nil {
		return !c.replaying
	}
	news := !known.told
	known.unanswered--
	known.accepted, known.told = true, true
	return news
}

// nodeRejected applies an answer of the server. An accepted node stays: what was rejected is its
// repetition.
func (c *cache) nodeRejected(id string) {
	known := c.nodes[id]
	if known == nil {
		return
	}
	known.unanswered--
	if !known.accepted && known.unanswered <= 0 {
		delete(c.nodes, id)
	}
}
