package shimtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/schedulerapi"
)

// A shim that starts again tells what runs. It finds what changed meanwhile, and binds nothing anew.
func TestShimRestarts(t *testing.T) {
	onBoth(t, func(t *testing.T, core backend) {
		c := start(t, core, aNode("n1", 4), aNode("n2", 4))
		running, names := pods("app", 6, 500)
		c.addPods(running...)
		c.addPods(aPod("app", "waits", 500, selecting("disk", "tape")), aPod("", "alien", 250, foreign("n1")))
		before := c.comesToBind(names...)
		c.stopShim()
		c.removePod(names[0])
		c.addPods(aPod("app", "born-meanwhile", 500))
		c.startShim(core.scheduler(), queues)
		after := c.comesToBind(append(names, "born-meanwhile")...)
		checkBooks(t, c, core)
		for _, name := range names {
			if before[name] != after[name] {
				t.Fatalf("pod %s moved from %s to %s", name, before[name], after[name])
			}
		}
		c.addNodes(aNode("n3", 1, labelled("disk", "tape")))
		c.comesToBind("waits")
	})
}

// A second process of the shim takes over from one that still runs, which learns that it must stop.
func TestShimTakesOver(t *testing.T) {
	core := startLicorne(t)
	ended := make(chan error, 1)
	first := core.with(func(o *schedulerapi.Options) { o.Ended = func(err error) { ended <- err } })
	c := newCluster(t)
	c.addNodes(aNode("n1", 4))
	c.startShim(first, queues)
	running, names := pods("app", 3, 500)
	c.addPods(running...)
	c.comesToBind(names...)
	c.stopShim()
	c.startShim(core.scheduler(), queues)
	var fenced *licorne.FencedError
	if err := <-ended; !errors.As(err, &fenced) {
		t.Fatalf("the first one ended with %v", err)
	}
	if err := first.UpdateNode(&si.NodeRequest{RmID: "mycluster"}); err == nil {
		t.Fatal("the first one takes nodes although it has ended")
	}
	checkBooks(t, c, core)
}

// The shim does not notice that the server restarts: nothing is bound anew, and the books are as
// before. What the shim tells while there is no server arrives.
func TestServerRestarts(t *testing.T) {
	core := startLicorne(t)
	c := start(t, core, aNode("n1", 4), aNode("n2", 4))
	running, names := pods("app", 6, 500)
	c.addPods(running...)
	c.addPods(aPod("app", "waits", 500, selecting("disk", "tape")), aPod("", "alien", 250, foreign("n1")))
	c.comesToBind(names...)
	checkBooks(t, c, core)
	core.restart()
	checkBooks(t, c, core)
	core.kill()
	later, more := pods("later", 4, 500)
	c.addPods(later...)
	c.removePod(names[0])
	core.run(core.grpc, core.http)
	c.comesToBind(more...)
	checkBooks(t, c, core)
	c.addNodes(aNode("n3", 1, labelled("disk", "tape")))
	c.comesToBind("waits")
}

// A server that is killed again and again while pods are placed binds each of them once.
func TestServerRestartsAllTheTime(t *testing.T) {
	core := startLicorne(t)
	c := start(t, core, manyNodes(10)...)
	var names []string
	for round := range 3 {
		more, named := pods(fmt.Sprintf("app%d", round), 100, 50, notTooMany)
		names = append(names, named...)
		enough := make(chan struct{})
		var once sync.Once
		c.whenBound(len(names)-70, func() { once.Do(func() { close(enough) }) })
		c.addPods(more...)
		<-enough
		core.restart()
	}
	c.comesToBind(names...)
	checkBooks(t, c, core)
}

// A connection that breaks again and again while pods are placed binds each of them once.
func TestConnectionBreaks(t *testing.T) {
	core := startLicorne(t)
	through := startProxy(t, core.grpc)
	scheduler := core.with(func(o *schedulerapi.Options) { o.Target = through.address })
	c := newCluster(t)
	c.addNodes(manyNodes(10)...)
	c.startShim(scheduler, queues)
	many, names := pods("app", 300, 50, notTooMany)
	for _, count := range []int{30, 90, 150, 210} {
		c.whenBound(count, through.cut)
	}
	c.addPods(many...)
	c.comesToBind(names...)
	checkBooks(t, c, core)
}

// A shim that is too slow for the deadline has its word all the same: what it has accepted stays
// where it is, though the server has given it up meanwhile.
func TestSlowPredicates(t *testing.T) {
	core := startLicorne(t)
	var placedAgain, mu = 0, sync.Mutex{}
	scheduler := core.with(func(o *schedulerapi.Options) {
		o.PredicateDeadline, o.Judge = 100*time.Millisecond, nil
		o.MetricsHook = func(metric schedulerapi.Metric, _ float64) {
			if metric == schedulerapi.MetricPlacedAgain {
				mu.Lock()
				placedAgain++
				mu.Unlock()
			}
		}
	})
	c := newCluster(t)
	c.addNodes(manyNodes(3)...)
	c.startShim(&slowed{scheduler, 150 * time.Millisecond}, queues)
	some, names := pods("app", 5, 500)
	c.addPods(some...)
	c.comesToBind(names...)
	checkBooks(t, c, core)
	mu.Lock()
	defer mu.Unlock()
	if placedAgain == 0 {
		t.Fatal("the server never gave anything up; this test shows nothing")
	}
}

// slowed gives the scheduler a shim whose predicates take their time.
type slowed struct {
	api.SchedulerAPI
	by time.Duration
}

func (s *slowed) RegisterResourceManager(
	request *si.RegisterResourceManagerRequest, callback api.ResourceManagerCallback,
) (*si.RegisterResourceManagerResponse, error) {
	return s.SchedulerAPI.RegisterResourceManager(request, &slow{callback, s.by})
}

type slow struct {
	api.ResourceManagerCallback
	by time.Duration
}

func (s *slow) Predicates(args *si.PredicatesArgs) error {
	time.Sleep(s.by)
	return s.ResourceManagerCallback.Predicates(args)
}

// checkBooks waits until the core has booked on each node what runs there.
func checkBooks(t *testing.T, c *cluster, core backend) {
	t.Helper()
	c.bound() // nothing was bound twice
	for node, want := range c.booked() {
		comesToBook(t, core, node, want)
	}
}

// booked is what runs on each node.
func (c *cluster) booked() map[string]booked {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]booked{}
	for name, node := range c.nodes {
		all[name] = booked{capacity: node.Status.Allocatable.Cpu().MilliValue()}
	}
	for _, pod := range c.pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		on, wants := all[pod.Spec.NodeName], pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		if pod.Annotations == nil {
			on.occupied += wants
		} else {
			on.allocated += wants
		}
		all[pod.Spec.NodeName] = on
	}
	return all
}

// whenBound calls a function, in a goroutine of its own, when so many pods are bound.
func (c *cluster) whenBound(count int, then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.onBind
	c.onBind = func(pod string) {
		if before != nil {
			before(pod)
		}
		c.mu.Lock()
		reached := len(c.binds) == count
		c.mu.Unlock()
		if reached {
			go then()
		}
	}
}

func manyNodes(count int) []*v1.Node {
	var nodes []*v1.Node
	for n := range count {
		nodes = append(nodes, aNode(fmt.Sprintf("n%d", n), 8))
	}
	return nodes
}

// notTooMany has the shim look at more than resources: pods are spread over the nodes.
func notTooMany(pod *v1.Pod) {
	pod.Spec.Containers[0].Ports = nil
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{
					Key: "kubernetes.io/hostname", Operator: v1.NodeSelectorOpNotIn, Values: []string{"n0", "n1"},
				}},
			}},
		},
	}}
}

// proxy forwards connections, and can cut them.
type proxy struct {
	address string
	mu      sync.Mutex
	open    []net.Conn
}

func startProxy(t *testing.T, target string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String()}
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, near, far)
			p.mu.Unlock()
			for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
			}
		}
	}()
	return p
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, connection := range p.open {
		_ = connection.Close()
	}
	p.open = nil
}
