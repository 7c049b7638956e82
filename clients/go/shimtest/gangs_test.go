package shimtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/apache/yunikorn-k8shim/pkg/common/constants"

	"licorne.dev/clients/go/schedulerapi"
	"licorne.dev/clients/go/shimtest/objects"
)

// inGang makes the pod a member of the one task group of its application, which reserves room for so
// many members of that size in thousandths of a core. The parameters are those of the annotation.
func inGang(members int, millis int64, parameters ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Annotations[constants.AnnotationTaskGroupName] = "workers"
		pod.Annotations[constants.AnnotationTaskGroups] = fmt.Sprintf(
			`[{"name": "workers", "minMember": %d, "minResource": {"cpu": "%dm"}}]`, members, millis)
		pod.Annotations[constants.AnnotationSchedulingPolicyParam] = strings.Join(parameters, " ")
	}
}

// placeholders are those that there are, by name, and the nodes that they were bound to.
func (c *cluster) placeholders() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	on := map[string]string{}
	for name, pod := range c.pods {
		if isPlaceholder(pod) {
			on[name] = pod.Spec.NodeName
		}
	}
	return on
}

func isPlaceholder(pod *v1.Pod) bool {
	return pod.Annotations[constants.AnnotationPlaceholderFlag] == constants.True
}

// comesToHold waits until so many placeholders run.
func (c *cluster) comesToHold(count int) {
	c.t.Helper()
	running := func() (count int) {
		for _, node := range c.placeholders() {
			if node != "" {
				count++
			}
		}
		return count
	}
	until(c.t, func() bool { return running() == count }, func() any { return c.placeholders() })
}

// comesToHaveNone waits until there are no placeholders.
func (c *cluster) comesToHaveNone() {
	c.t.Helper()
	until(c.t, func() bool { return len(c.placeholders()) == 0 }, func() any { return c.placeholders() })
}

// boundOf counts the pods of an application that were bound.
func (c *cluster) boundOf(app string) (count int) {
	for pod := range c.bound() {
		if strings.HasPrefix(pod, app+"-") {
			count++
		}
	}
	return count
}

// isMember tells members of the application "gang" from its placeholders, by the name.
func isMember(name string) bool { return strings.HasPrefix(name, "gang-") }

// Room for all members of a gang is held before any of them runs. Each takes the place of a placeholder.
func TestGang(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2), aNode("n2", 1))
		c.addPods(aPod("other", "other", 1000))
		c.comesToBind("other")
		members, names := pods("gang", 4, 500, inGang(4, 500))
		c.addPods(members...)
		c.comesToBind(names...)
		c.comesToHaveNone()
		held := map[string]int{}
		c.mu.Lock()
		order := c.order
		c.mu.Unlock()
		if reserved := order[1:5]; slices.ContainsFunc(reserved, isMember) {
			t.Errorf("%v were bound first, which are not all placeholders", reserved)
		}
		for name, node := range c.bound() {
			switch {
			case name == "other":
			case isMember(name):
				held[node]--
			default:
				held[node]++
			}
		}
		for node, left := range held {
			if left != 0 {
				t.Errorf("node %s has %d members more or less than placeholders", node, left)
			}
		}
		checkBooks(t, c, core)
	})
}

// As long as one placeholder of a gang waits for room none of its members runs.
func TestGangRunsAsAWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.addPods(aPod("other", "other", 1000))
		c.comesToBind("other")
		members, names := pods("gang", 3, 500, inGang(3, 500))
		c.addPods(members...)
		c.comesToHold(2)
		checkBooks(t, c, core)
		c.removePod("other")
		c.comesToBind(names...)
		c.comesToHaveNone()
		checkBooks(t, c, core)
		c.mu.Lock()
		defer c.mu.Unlock()
		if first := slices.IndexFunc(c.order, func(pod string) bool { return slices.Contains(names, pod) }); first != 4 {
			t.Fatalf("the pods were bound in the order %v", c.order)
		}
	})
}

// A member that is smaller than its placeholder gives the rest of the room back.
func TestSmallerMembers(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		members, names := pods("gang", 2, 300, inGang(2, 1000))
		c.addPods(members...)
		c.comesToBind(names...)
		c.addPods(aPod("other", "other", 1400))
		c.comesToBind("other")
		comesToBook(t, core, "n1", booked{allocated: 2000, capacity: 2000})
		checkBooks(t, c, core)
	})
}

// A member that is bigger than its placeholder cannot take its place: the placeholders end, and the
// members run like other pods.
func TestBiggerMembers(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		members, names := pods("gang", 2, 800, inGang(2, 600))
		c.addPods(members...)
		c.comesToBind(names...)
		c.comesToHaveNone()
		comesToBook(t, core, "n1", booked{allocated: 1600, capacity: 2000})
	})
}

// Placeholders that no member has come for end when their time is over. What runs goes on.
func TestPlaceholdersNobodyNeeds(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		members, names := pods("gang", 2, 500, inGang(4, 500, "placeholderTimeoutInSeconds=3"))
		c.addPods(members...)
		c.comesToBind(names...)
		c.comesToHaveNone()
		comesToBook(t, core, "n1", booked{allocated: 1000, capacity: 2000})
		checkBooks(t, c, core)
	})
}

// Where the room for a gang does not come in time its members run like other pods, one by one, if the
// gang is soft.
func TestSoftTimeout(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 1))
		members, names := pods("gang", 3, 400, inGang(3, 400, "placeholderTimeoutInSeconds=2"))
		c.addPods(members...)
		c.comesToHold(2)
		until(t, func() bool { return c.boundOf("gang") == 2 }, func() any { return c.bound() })
		c.comesToHaveNone()
		comesToBook(t, core, "n1", booked{allocated: 800, capacity: 1000})
		c.addNodes(aNode("n2", 1))
		c.comesToBind(names...)
		checkBooks(t, c, core)
	})
}

// If the gang is hard its pods fail, and the room that was held for it is free again.
func TestHardTimeout(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 1))
		members, names := pods("gang", 3, 400, inGang(3, 400, "placeholderTimeoutInSeconds=2", "gangSchedulingStyle=Hard"))
		c.addPods(members...)
		c.comesToHold(2)
		for _, name := range names {
			until(t, func() bool { return c.failure(name) != "" }, func() any { return c.bound() })
			if why := c.failure(name); !strings.Contains(why, "timed out") {
				t.Fatalf("pod %s fails with %q", name, why)
			}
		}
		c.comesToHaveNone()
		comesToBook(t, core, "n1", booked{capacity: 1000})
		if count := c.boundOf("gang"); count != 0 {
			t.Fatalf("%d members run", count)
		}
	})
}

// A gang for which its queue can never have room is rejected, and its pods fail.
func TestGangThatNeverFits(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := newCluster(t)
		c.addNodes(aNode("n1", 4))
		c.startShim(core.scheduler(), queues+"            resources: {max: {vcore: 1}}\n")
		c.addPods(aPod("gang", "pod", 500, inGang(3, 500)))
		until(t, func() bool { return c.failure("pod") != "" }, func() any { return c.bound() })
		if why := c.failure("pod"); !strings.Contains(why, "cannot fit application gang") {
			t.Fatalf("the pod fails with %q", why)
		}
	})
}

// A gang that has come together in part goes on where it was when the shim starts again.
func TestGangOutlivesTheShim(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 2))
		c.addPods(aPod("other", "other", 1000))
		c.comesToBind("other")
		members, names := pods("gang", 3, 500, inGang(3, 500))
		c.addPods(members...)
		c.comesToHold(2)
		c.stopShim()
		c.removePod("other")
		c.startShim(core.scheduler(), queues)
		c.comesToBind(names...)
		c.comesToHaveNone()
		checkBooks(t, c, core)
	})
}

// The server is killed while gangs come together, and while their members take the places of the
// placeholders: all of them run in the end, each bound once, and nothing else is booked.
func TestServerRestartsWithGangs(t *testing.T) {
	core := startLicorne(t)
	c := start(t, core, aNode("n1", 8), aNode("n2", 8))
	var all []string
	var restarts sync.WaitGroup
	for _, count := range []int{10, 25} {
		restarts.Add(1)
		c.whenBound(count, func() {
			core.restart()
			restarts.Done()
		})
	}
	for n := range 4 {
		members, names := pods(fmt.Sprint("gang", n), 5, 500, inGang(5, 500))
		c.addPods(members...)
		all = append(all, names...)
	}
	c.comesToBind(all...)
	restarts.Wait()
	c.comesToHaveNone()
	checkBooks(t, c, core)
}

// A connection that breaks again and again while gangs come together binds each pod once.
func TestConnectionBreaksWithGangs(t *testing.T) {
	core := startLicorne(t)
	through := startProxy(t, core.grpc)
	scheduler := core.with(func(o *schedulerapi.Options) { o.Target = through.address })
	c := newCluster(t)
	c.addNodes(aNode("n1", 8), aNode("n2", 8))
	c.startShim(scheduler, queues)
	for _, count := range []int{5, 12, 22, 30} {
		c.whenBound(count, through.cut)
	}
	var all []string
	for n := range 4 {
		members, names := pods(fmt.Sprint("gang", n), 5, 500, inGang(5, 500))
		c.addPods(members...)
		all = append(all, names...)
	}
	c.comesToBind(all...)
	c.comesToHaveNone()
	checkBooks(t, c, core)
}

// A shim that is too slow for the deadline has its gangs all the same: its placeholders stay where it
// has accepted them, and members take their places where the server has heard that they may.
func TestSlowPredicatesWithGangs(t *testing.T) {
	core := startLicorne(t)
	scheduler := core.with(func(o *schedulerapi.Options) {
		o.PredicateDeadline, o.Judge = 100*time.Millisecond, nil
	})
	c := newCluster(t)
	c.addNodes(manyNodes(2)...)
	c.startShim(&slowed{scheduler, 60 * time.Millisecond}, queues)
	members, names := pods("gang", 4, 500, inGang(4, 500))
	c.addPods(members...)
	c.comesToBind(names...)
	c.comesToHaveNone()
	checkBooks(t, c, core)
}

// grows makes the pod a member of an elastic gang: it names a task group that no pod defines.
func grows(least, most, step int) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Annotations[constants.AnnotationTaskGroupName] = "workers"
		pod.Annotations["licorne.dev/gang-min"] = strconv.Itoa(least)
		pod.Annotations["licorne.dev/gang-max"] = strconv.Itoa(most)
		pod.Annotations["licorne.dev/gang-step"] = strconv.Itoa(step)
	}
}

// An elastic gang has its minimum and whole steps, and no placeholder: the shim makes none for a task group
// without a definition, and sends its name with the pods.
func TestElasticGang(t *testing.T) {
	core := startLicorne(t)
	c := newCluster(t)
	c.objects = objects.Of(&nodesOf{cluster: c})
	c.addNodes(aNode("n1", 3))
	c.startShim(core.with(func(o *schedulerapi.Options) { o.Cluster = c.objects }), queues)
	members, names := pods("grows", 5, 1000, grows(2, 4, 2))
	c.addPods(members...)
	c.comesToBind(names[0], names[1])
	c.addPods(aPod("other", "other", 1000))
	c.comesToBind("other")
	if bound := c.boundOf("grows"); bound != 2 {
		t.Fatalf("%d members run, where a half step has room", bound)
	}
	c.addNodes(aNode("n2", 3))
	c.comesToBind(names[2], names[3])
	if held := c.placeholders(); len(held) != 0 {
		t.Fatalf("there are the placeholders %v", held)
	}
	checkBooks(t, c, core)
	if bound := c.boundOf("grows"); bound != 4 {
		t.Fatalf("%d members run, of 4 at most", bound)
	}
}
