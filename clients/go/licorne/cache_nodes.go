package licorne

import "github.com/apache/yunikorn-scheduler-interface/lib/go/si"

// knownNode is a node that was added and not removed.
type knownNode struct {
	// number is the position in the order of additions, in which a replay sends nodes.
	number uint64
	// created is the message that added the node.
	created *si.NodeInfo
	// capacity is the last capacity from the caller.
	capacity *si.Resource
	// drained is true if the node accepts no new allocations.
	drained bool
	// unanswered counts the additions that the server has not answered in this session.
	unanswered int
	// accepted is true if the server has accepted it in this session.
	accepted bool
	// told is true if the handlers have received an acceptance, which they receive once.
	told bool
}

// info returns the message with which a replay adds the node. It shares its parts with the caller's message.
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

// node records an addition, a change or a removal of a node. The server ignores changes of unknown nodes.
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

// addNode records an addition. The server rejects the addition of a node that it has, so an addition changes
// nothing after the acceptance.
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

// nodeAccepted applies an acceptance. It returns true if the handlers should receive it.
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

// nodeRejected applies a rejection. An accepted node is retained, because the rejection is for a
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
