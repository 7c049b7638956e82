package shimtest

import (
	"slices"
	"testing"
)

// A member that may not go where its placeholder is goes to another node, and the placeholder ends.
func TestMemberGoesElsewhere(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		members, names := pods("gang", 2, 500, inGang(2, 500), selecting("disk", "ssd"))
		c.addPods(members...)
		c.comesToHold(2)
		c.comesToRefuse(names...)
		c.addNodes(aNode("n2", 1, labelled("disk", "ssd")))
		bound := c.comesToBind(names...)
		for _, name := range names {
			if bound[name] != "n2" {
				t.Fatalf("pod %s is on %s", name, bound[name])
			}
		}
		c.comesToHaveNone()
		checkBooks(t, c, core)
	})
}

// comesToRefuse waits until the shim has refused each of the pods on some node.
func (c *cluster) comesToRefuse(pods ...string) {
	c.t.Helper()
	for _, pod := range pods {
		until(c.t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.refused["uid-"+pod]
		}, func() any { return c.bound() })
	}
}

// A label that comes later lets a member take the place of a placeholder on that node, though the node
// has no room beside the placeholders, and the core is not told of labels.
func TestPlaceIsAcceptedLater(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 1))
		members, names := pods("gang", 2, 500, inGang(2, 500), selecting("disk", "ssd"))
		c.addPods(members...)
		c.comesToHold(2)
		c.comesToRefuse(names...)
		c.updateNode("n1", labelled("disk", "ssd"))
		c.comesToBind(names...)
		checkBooks(t, c, core)
	})
}

// Two members that must keep apart hold places on one node. Both placeholders are on their way out before
// either member runs, so whoever comes second is refused at the last moment and goes elsewhere: the
// in-process core would put both there, as it does not ask again when a placeholder has ended.
func TestMembersThatKeepApart(t *testing.T) {
	core := startLicorne(t)
	c := newCluster(t)
	c.lasting = true
	c.addNodes(aNode("n1", 2))
	c.startShim(core.scheduler(), queues)
	members, names := pods("gang", 2, 500, inGang(2, 500), notBesideItsLike)
	c.addPods(members...)
	for _, placeholder := range c.comesToGiveUp(2) {
		c.removePod(placeholder)
	}
	until(t, func() bool { return c.boundOf("gang") == 1 }, func() any { return c.bound() })
	c.addNodes(aNode("n2", 2))
	bound := c.comesToBind(names...)
	if bound[names[0]] == bound[names[1]] {
		t.Fatalf("both members are on %s", bound[names[0]])
	}
	checkBooks(t, c, core)
}

// comesToGiveUp waits until the shim has deleted so many pods, and returns their names.
func (c *cluster) comesToGiveUp(count int) []string {
	c.t.Helper()
	var given []string
	until(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		given = slices.Compact(slices.Sorted(slices.Values(c.deleted)))
		return len(given) == count
	}, func() any { return given })
	return given
}

// A member that comes when one of its like runs already is refused beside it. The placeholder holds its
// place until the member has found another node.
func TestMemberThatComesLater(t *testing.T) {
	core := startLicorne(t)
	c := start(t, core, aNode("n1", 2))
	members, names := pods("gang", 2, 500, inGang(2, 500), notBesideItsLike)
	c.addPods(members[0])
	c.comesToBind(names[0])
	c.addPods(members[1])
	c.comesToRefuse(names[1])
	c.comesToHold(1)
	c.addNodes(aNode("n2", 2))
	if bound := c.comesToBind(names[1]); bound[names[1]] != "n2" {
		t.Fatalf("the member is on %s", bound[names[1]])
	}
	c.comesToHaveNone()
	checkBooks(t, c, core)
}
