package shimtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/schedulerapi"
)

// queues are what most tests are configured with.
const queues = `
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
`

// start runs a shim on the core, in a cluster of nodes.
func start(t *testing.T, core backend, nodes ...*v1.Node) *cluster {
	t.Helper()
	c := newCluster(t)
	c.addNodes(nodes...)
	c.startShim(core.scheduler(), queues)
	return c
}

// Applications run, their pods are bound, and what has ended makes room.
func TestApplicationsRun(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2), aNode("n2", 2))
		first, names := pods("app1", 8, 500)
		c.addPods(first...)
		c.comesToBind(names...)
		comesToBook(t, core, "n1", booked{allocated: 2000, capacity: 2000})
		comesToBook(t, core, "n2", booked{allocated: 2000, capacity: 2000})
		second, more := pods("app2", 3, 500)
		c.addPods(second...)
		c.updatePod(names[0], func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded })
		c.removePod(names[1])
		c.updatePod(names[2], func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed })
		c.comesToBind(more...)
	})
}

// A node selector is a predicate of the shim: a pod goes where it may, or waits until there is such a
// node.
func TestNodeSelectors(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 8), aNode("n2", 8, labelled("disk", "ssd")), aNode("n3", 8))
		right, names := pods("right", 5, 500, selecting("disk", "ssd"))
		nowhere := aPod("nowhere", "nowhere", 500, selecting("disk", "tape"))
		c.addPods(append(right, nowhere)...)
		for pod, node := range c.comesToBind(names...) {
			if node != "n2" {
				t.Fatalf("pod %s is on %s", pod, node)
			}
		}
		c.addNodes(aNode("n4", 8, labelled("disk", "tape")))
		if node := c.comesToBind("nowhere")["nowhere"]; node != "n4" {
			t.Fatalf("the other pod is on %s", node)
		}
	})
}

// A label that comes later lets a waiting pod in, though the core is not told of labels.
func TestLabelComesLater(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 8))
		c.addPods(aPod("app", "early", 500, selecting("disk", "ssd")), aPod("app", "other", 500))
		c.comesToBind("other")
		c.updateNode("n1", labelled("disk", "ssd"))
		c.comesToBind("early")
	})
}

// Each pod sees those that were placed before it: no two of them share a node.
func TestPodsThatKeepApart(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		var nodes []*v1.Node
		for n := range 6 {
			nodes = append(nodes, aNode(fmt.Sprintf("n%d", n), 8))
		}
		c := start(t, core, nodes...)
		apart, names := pods("apart", 6, 500, notBesideItsLike)
		c.addPods(apart...)
		on := map[string]string{}
		for pod, node := range c.comesToBind(names...) {
			if on[node] != "" {
				t.Fatalf("%s and %s share %s", pod, on[node], node)
			}
			on[node] = pod
		}
	})
}

// What is on one node speaks against another node of its zone, of which the core knows nothing.
func TestPodsThatKeepApartByZone(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		var nodes []*v1.Node
		for n := range 30 {
			nodes = append(nodes, aNode(fmt.Sprintf("n%d", n), 8, labelled("zone", fmt.Sprint(n%3))))
		}
		c := start(t, core, nodes...)
		apart, _ := pods("apart", 8, 500, notInOneZone)
		c.addPods(apart...)
		until(t, func() bool { return len(c.bound()) >= 3 }, func() any { return c.bound() })
		more, names := pods("more", 30, 500)
		c.addPods(more...)
		c.comesToBind(names...)
		zones := map[string]string{}
		for pod, node := range c.bound() {
			zone := c.nodes[node].Labels["zone"]
			if !strings.HasPrefix(pod, "apart") {
				continue
			}
			if zones[zone] != "" {
				t.Fatalf("%s and %s share zone %s", pod, zones[zone], zone)
			}
			zones[zone] = pod
		}
		if len(zones) != 3 {
			t.Fatalf("pods run in the zones %v", zones)
		}
		checkBooks(t, c, core)
	})
}

// Pods of one class share what is said of the nodes, and keep apart all the same.
func TestClassesOfPods(t *testing.T) {
	core := startLicorne(t)
	core.running = core.with(func(o *schedulerapi.Options) {
		o.PredicateClass = func(ask *si.Allocation) string { return ask.GetApplicationID() }
	})
	c := start(t, core, manyNodes(6)...)
	apart, names := pods("apart", 8, 500, notBesideItsLike)
	together, more := pods("together", 40, 50, selecting("kubernetes.io/hostname", "n3"))
	c.addPods(append(apart, together...)...)
	for pod, node := range c.comesToBind(more...) {
		if strings.HasPrefix(pod, "together") && node != "n3" {
			t.Fatalf("pod %s is on %s", pod, node)
		}
	}
	on := func() map[string]string {
		nodes := map[string]string{}
		for pod, node := range c.bound() {
			if strings.HasPrefix(pod, "together") {
				continue
			}
			if other := nodes[node]; other != "" {
				t.Fatalf("%s and %s share %s", pod, other, node)
			}
			nodes[node] = pod
		}
		return nodes
	}
	until(t, func() bool { return len(on()) == 6 }, func() any { return on() })
	first := on()["n0"]
	c.removePod(first)
	until(t, func() bool { return len(c.bound()) == len(more)+7 }, func() any { return len(c.bound()) })
	checkBooks(t, c, core)
	if bound := c.bound(); len(bound) != len(more)+7 || bound[first] != "n0" {
		t.Fatalf("%d of %d pods are bound", len(bound), len(names)+len(more))
	}
}

// What other schedulers run counts as occupied, and no longer when it ends.
func TestForeignPods(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := newCluster(t)
		c.addNodes(aNode("n1", 2))
		c.addPods(aPod("", "before", 300, foreign("n1")))
		c.startShim(core.scheduler(), queues)
		comesToBook(t, core, "n1", booked{occupied: 300, capacity: 2000})
		c.addPods(aPod("", "later", 1200, foreign("n1")))
		comesToBook(t, core, "n1", booked{occupied: 1500, capacity: 2000})
		c.addPods(aPod("app", "waits", 1000))
		c.removePod("later")
		c.comesToBind("waits")
		comesToBook(t, core, "n1", booked{allocated: 1000, occupied: 300, capacity: 2000})
	})
}

// A pod of a daemon set runs on its node, and there only.
func TestDaemonSets(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2), aNode("n2", 2), aNode("n3", 2))
		for _, node := range []string{"n1", "n2", "n3"} {
			c.addPods(aPod("agents", "agent-"+node, 100, ofDaemonSet(node)))
		}
		bound := c.comesToBind("agent-n1", "agent-n2", "agent-n3")
		for _, node := range []string{"n1", "n2", "n3"} {
			if bound["agent-"+node] != node {
				t.Fatalf("the agent of %s is on %s", node, bound["agent-"+node])
			}
		}
	})
}

// A cordoned node takes no pods but those of daemon sets. It takes pods again when that ends, though
// the shim tells the core of neither.
func TestCordon(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 4))
		c.addPods(aPod("app", "first", 500))
		c.comesToBind("first")
		c.updateNode("n1", func(node *v1.Node) { node.Spec.Unschedulable = true })
		agent := aPod("agents", "agent", 100, ofDaemonSet("n1"))
		c.addPods(aPod("app", "second", 500), agent)
		if bound := c.comesToBind("agent"); bound["second"] != "" {
			t.Fatal("a cordoned node took a pod")
		}
		c.updateNode("n1", func(node *v1.Node) { node.Spec.Unschedulable = false })
		c.comesToBind("second")
	})
}

// A node that grows takes what waited, and one that goes away is forgotten.
func TestNodesChange(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 1))
		waiting, names := pods("app", 3, 1000)
		c.addPods(waiting...)
		comesToBook(t, core, "n1", booked{allocated: 1000, capacity: 1000})
		c.updateNode("n1", func(node *v1.Node) { setCores(node, 3) })
		c.comesToBind(names...)
		comesToBook(t, core, "n1", booked{allocated: 3000, capacity: 3000})
		c.removeNode("n1")
		until(t, func() bool { _, known := core.node("n1"); return !known }, func() any { return "n1" })
	})
}

// A running pod that is resized in place is booked in its new size.
func TestResizeInPlace(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 4))
		c.addPods(aPod("app", "pod", 500))
		c.comesToBind("pod")
		c.updatePod("pod", func(pod *v1.Pod) {
			size := *resource.NewMilliQuantity(1500, resource.DecimalSI)
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = size
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name:               "main",
				AllocatedResources: cpu(1500),
				Resources:          &v1.ResourceRequirements{Requests: cpu(1500)},
			}}
		})
		comesToBook(t, core, "n1", booked{allocated: 1500, capacity: 4000})
	})
}

// Queues come from a config map, and their quotas count at once.
func TestQueuesFromConfigMap(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 8))
		c.configure(queues + "            resources: {max: {vcore: 1}}\n          - name: other\n")
		both, names := pods("app", 2, 600)
		c.addPods(both[0])
		c.comesToBind(names[0])
		c.addPods(both[1], aPod("beside", "beside", 600, inQueue("root.other")))
		if bound := c.comesToBind("beside"); bound[names[1]] != "" {
			t.Fatal("a pod runs beyond the quota")
		}
		c.configure(queues + "            resources: {max: {vcore: 2}}\n          - name: other\n")
		c.comesToBind(names[1])
	})
}

// A pod that no node can take is marked for the autoscaler. One that waits for its queue's turn is not.
func TestAutoscaler(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.configure(queues + "            resources: {max: {vcore: 1}}\n          - name: other\n")
		both, names := pods("app", 2, 800)
		c.addPods(both[0])
		c.comesToBind(names[0])
		c.addPods(both[1], aPod("big", "big", 1500, inQueue("root.other")))
		until(t, func() bool { return c.condition("big").Reason == v1.PodReasonUnschedulable },
			func() any { return c.condition("big") })
		if condition := c.condition("big"); condition.Status != v1.ConditionFalse {
			t.Fatalf("the condition is %v", condition)
		}
		if condition := c.condition(names[1]); condition.Reason == v1.PodReasonUnschedulable {
			t.Fatalf("the pod that waits for its queue has the condition %v", condition)
		}
		c.addNodes(aNode("n2", 2))
		c.comesToBind("big")
	})
}

// Labels of a pod, of which there may be many, come with its ask.
func TestManyLabels(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.addPods(aPod("app", "pod", 500, func(pod *v1.Pod) {
			for n := range 300 {
				pod.Labels[fmt.Sprintf("example.org/label-%d", n)] = strings.Repeat("x", 63)
			}
		}))
		c.comesToBind("pod")
	})
}

// A state dump of the server has what the shim adds to it.
func TestStateDump(t *testing.T) {
	core := startLicorne(t)
	c := start(t, core, aNode("n1", 2))
	c.addPods(aPod("app", "pod", 500))
	c.comesToBind("pod")
	var dump struct {
		RMDiagnostics json.RawMessage
	}
	core.get("/ws/v1/fullstatedump", &dump)
	if text := string(dump.RMDiagnostics); !strings.Contains(text, `"cache"`) || !strings.Contains(text, "uid-pod") {
		t.Fatalf("the shim's part is %s", text)
	}
}
