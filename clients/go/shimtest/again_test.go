package shimtest

import (
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// comesToFail waits until the binds of a pod have failed that were to fail.
func (c *cluster) comesToFail(pod string) {
	c.t.Helper()
	until(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.unbindable[pod] == 0
	}, func() any { return "no bind that fails" })
}

// A pod that could not be bound is placed again, beside those that were bound, and a change of it meanwhile does not
// have it counted where it is not.
func TestFailedBindIsPlacedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.unbindable["unlucky"] = 1
		c.addPods(aPod("app", "unlucky", 1000), aPod("app", "lucky", 1000))
		c.comesToBind("lucky")
		c.comesToFail("unlucky")
		c.updatePod("unlucky", func(pod *v1.Pod) { pod.Labels["changed"] = "yes" })
		c.comesToBind("unlucky")
		comesToBook(t, core, "n1", booked{allocated: 2000, capacity: 2000})
		c.bound()
	})
}

// A placeholder that could not be bound is placed again, and its gang runs.
func TestFailedBindOfPlaceholder(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.unbindable[anyPlaceholder] = 1
		members, names := pods("gang", 4, 500, inGang(4, 500))
		c.addPods(members...)
		c.comesToBind(names...)
		c.comesToHaveNone()
		checkBooks(t, c, core)
	})
}

// A pod that goes before it is placed again is forgotten, and its room is free.
func TestFailedBindOfPodThatGoes(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 1))
		c.unbindable["unlucky"] = 1
		c.addPods(aPod("app", "unlucky", 1000))
		c.comesToFail("unlucky")
		c.removePod("unlucky")
		c.addPods(aPod("other", "next", 1000))
		c.comesToBind("next")
		comesToBook(t, core, "n1", booked{allocated: 1000, capacity: 1000})
	})
}

// A pod that goes in the moment in which it is placed again leaves no ask behind.
func TestFailedBindOfPodThatGoesMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 1))
		c.unbindable["unlucky"] = 1
		goes := sync.OnceFunc(func() { c.removePod("unlucky") })
		c.afterRead["unlucky"] = goes
		c.addPods(aPod("app", "unlucky", 1000))
		c.comesToFail("unlucky")
		until(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.pods["unlucky"] == nil
		}, func() any { return "a pod that has gone" })
		c.addPods(aPod("other", "next", 1000))
		c.comesToBind("next")
		comesToBook(t, core, "n1", booked{allocated: 1000, capacity: 1000})
	})
}

// A pod that waits and is bound by another hand is in the books of the core.
func TestBoundByAnother(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.addPods(aPod("app", "waits", 1000, selecting("disk", "tape")), aPod("app", "other", 500))
		c.comesToBind("other")
		c.updatePod("waits", func(pod *v1.Pod) {
			pod.Spec.NodeName = "n1"
			pod.Status.Phase = v1.PodRunning
		})
		comesToBook(t, core, "n1", booked{allocated: 1500, capacity: 2000})
		if nodes := c.bound(); nodes["waits"] != "" {
			t.Errorf("the shim has bound it, too: %v", nodes)
		}
	})
}

// A pod whose bind was given up and carried out all the same is counted, on the node that it has.
func TestBindThatIsLate(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.unbindable["late"] = 1
		c.addPods(aPod("app", "late", 1000))
		c.comesToFail("late")
		c.updatePod("late", func(pod *v1.Pod) {
			pod.Spec.NodeName = "n1"
			pod.Status.Phase = v1.PodRunning
		})
		comesToBook(t, core, "n1", booked{allocated: 1000, capacity: 2000})
		c.addPods(aPod("app", "next", 1000))
		c.comesToBind("next")
		comesToBook(t, core, "n1", booked{allocated: 2000, capacity: 2000})
		if nodes := c.bound(); nodes["late"] != "" {
			t.Errorf("it was bound again: %v", nodes)
		}
	})
}
