package shimtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fairQueues has a queue that takes what it gets, and one that is guaranteed a core.
const fairQueues = `
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: greedy
          - name: fair
            properties: {preemption.delay: 1s}
            resources: {guaranteed: {vcore: 1}}
`

// onPort makes the pod one that wants a port of its node for itself.
func onPort(port int32) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port}}
	}
}

// greedyPods are pods of the greedy queue, the oldest first. They were born a minute apart.
func greedyPods(count int) (made []*v1.Pod, names []string) {
	made, names = pods("greedy", count, 500, inQueue("root.greedy"))
	for n, pod := range made {
		born := time.Now().Add(time.Duration(n-count) * time.Minute)
		pod.CreationTimestamp = metav1.NewTime(born)
	}
	return made, names
}

// lost are the pods of an application that the shim has deleted.
func (c *cluster) lost(app string) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.deleted {
		if strings.HasPrefix(name, app+"-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// asked are the questions that the shim got about victims for a pod.
func (c *cluster) asked(pod string) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, question := range c.questions {
		if question.GetAllocationKey() == "uid-"+pod {
			count++
		}
	}
	return count
}

// A queue takes back what it is guaranteed, and no more: the shim deletes the youngest pods of the other
// queue for two pods, and the third one waits for room that comes by itself.
func TestGuaranteeIsTakenBack(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := newCluster(t)
		c.addNodes(aNode("n1", 2))
		c.startShim(core.scheduler(), fairQueues)
		greedy, names := greedyPods(4)
		c.addPods(greedy...)
		c.comesToBind(names...)
		fair, waiting := pods("fair", 3, 500, inQueue("root.fair"))
		c.addPods(fair...)
		until(t, func() bool { return c.boundOf("fair") == 2 }, func() any { return c.bound() })
		for _, pod := range waiting {
			if c.bound()[pod] != "" && c.asked(pod) == 0 {
				t.Fatalf("the shim was not asked about victims for %s", pod)
			}
		}
		c.removePod(names[0])
		c.comesToBind(waiting...)
		if lost := c.lost("greedy"); !slices.Equal(lost, names[2:]) {
			t.Fatalf("deleted were %v", lost)
		}
		checkBooks(t, c, core)
	})
}

// Who has to go is the shim's word: a pod that wants a port of the node has the pod deleted that has it,
// though the resources of others would do. The in-process core deletes one pod too few here, and the pod
// goes on waiting.
func TestShimNamesTheVictims(t *testing.T) {
	core := startLicorne(t)
	c := newCluster(t)
	c.addNodes(aNode("n1", 2))
	c.startShim(core.scheduler(), fairQueues)
	greedy, names := greedyPods(4)
	onPort(8080)(greedy[1])
	c.addPods(greedy...)
	c.comesToBind(names...)
	c.addPods(aPod("fair", "fair", 500, inQueue("root.fair"), onPort(8080)))
	c.comesToBind("fair")
	if lost := c.lost("greedy"); !slices.Equal(lost, names[1:]) {
		t.Fatalf("deleted were %v", lost)
	}
	checkBooks(t, c, core)
}

// The placeholders of a gang take back a guarantee, too, and its members have their places.
func TestGangTakesBackAGuarantee(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := newCluster(t)
		c.addNodes(aNode("n1", 2))
		c.startShim(core.scheduler(), fairQueues)
		greedy, names := greedyPods(4)
		c.addPods(greedy...)
		c.comesToBind(names...)
		members, waiting := pods("fair", 2, 500, inQueue("root.fair"), inGang(2, 500))
		c.addPods(members...)
		c.comesToBind(waiting...)
		c.comesToHaveNone()
		if lost := c.lost("greedy"); !slices.Equal(lost, names[2:]) {
			t.Fatalf("deleted were %v", lost)
		}
		checkBooks(t, c, core)
	})
}

// Placeholders can be victims. The gang has fewer places then, and its members run like other pods.
func TestPlaceholdersAreVictims(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := newCluster(t)
		c.addNodes(aNode("n1", 2))
		c.startShim(core.scheduler(), fairQueues)
		members, names := pods("greedy", 5, 400, inQueue("root.greedy"), inGang(6, 400))
		c.addPods(members...)
		c.comesToHold(5)
		c.addPods(aPod("fair", "fair", 400, inQueue("root.fair")))
		c.comesToBind("fair")
		c.addNodes(aNode("n2", 2))
		c.comesToBind(names...)
		checkBooks(t, c, core)
	})
}

// A server that restarts while victims take their time to stop finds them running, and wants their end
// again. The room is the waiting pod's when they have gone.
func TestServerRestartsWhileVictimsStop(t *testing.T) {
	core := startLicorne(t)
	c := newCluster(t)
	c.lasting = true
	c.addNodes(aNode("n1", 2))
	c.startShim(core.scheduler(), fairQueues)
	greedy, names := greedyPods(4)
	c.addPods(greedy...)
	c.comesToBind(names...)
	c.addPods(aPod("fair", "fair", 1000, inQueue("root.fair")))
	until(t, func() bool { return len(c.lost("greedy")) == 2 }, func() any { return c.lost("greedy") })
	core.restart()
	until(t, func() bool { return len(c.lost("greedy")) == 4 }, func() any { return c.lost("greedy") })
	if bound := c.bound(); bound["fair"] != "" {
		t.Fatal("a pod runs before its victims have gone")
	}
	for _, name := range names[2:] {
		c.removePod(name)
	}
	c.comesToBind("fair")
	if lost := slices.Compact(c.lost("greedy")); !slices.Equal(lost, names[2:]) {
		t.Fatalf("deleted were %v", lost)
	}
	checkBooks(t, c, core)
}
