package shimtest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"licorne.dev/clients/go/schedulerapi"
)

// benchQueues are five leaves beside each other.
const benchQueues = `
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]
`

// shapes are how many nodes there are, and how many applications of how many pods each queue has.
var shapes = []struct{ nodes, apps, pods int }{
	{50, 8, 125},
	{5000, 80, 125},
}

// benched are the cores, and Licorne with an adapter that sends everything at once.
var benched = append(slices.Clone(backends), struct {
	name  string
	start func(testing.TB) backend
}{"licorne-unjoined", func(t testing.TB) backend { return unjoined{startLicorne(t)} }})

// unjoined is a server whose adapter joins nothing.
type unjoined struct{ *server }

func (u unjoined) scheduler() api.SchedulerAPI {
	if u.running == nil {
		u.running = u.with(func(options *schedulerapi.Options) { options.JoinWindow = new(time.Duration) })
	}
	return u.running
}

// usedBy is how many seconds of a processor the process of a core has used; 0 if it has none of its own.
func usedBy(b *testing.B, core any) float64 {
	b.Helper()
	apart, found := core.(interface{ pid() int })
	if !found {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", apart.pid()))
	check(b, err)
	// Behind the name, which may hold blanks, user and system time are fields 12 and 13, in ticks.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// used is how many seconds of a processor this process has used: the shim, what plays Kubernetes, and
// the core if it is in-process, or else the client.
func used() float64 {
	var all syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &all) != nil {
		return 0
	}
	return time.Duration(all.Utime.Nano() + all.Stime.Nano()).Seconds()
}

// BenchmarkPods measures how fast pods are bound, with all predicates on, in the way of the shim's own
// benchmark: pods of 10 thousandths of a core, which end a second after they were bound. Run it with
// -benchtime 1x.
func BenchmarkPods(b *testing.B) {
	for _, shape := range shapes {
		count := 5 * shape.apps * shape.pods
		for _, one := range benched {
			b.Run(fmt.Sprintf("%dpods/%dnodes/%s", count, shape.nodes, one.name), func(b *testing.B) {
				for range b.N {
					bench(b, one.start(b), shape.nodes, shape.apps, shape.pods)
				}
			})
		}
	}
}

func bench(b *testing.B, core backend, nodes, apps, podsOfApp int) {
	c := newCluster(b)
	c.late = true
	for n := range nodes {
		c.addNodes(aNode(fmt.Sprintf("host-%d", n), 16))
	}
	w := &watch{cluster: c, all: make(chan struct{}), ended: make(chan struct{}), wanted: 5 * apps * podsOfApp}
	c.onBind = w.bound
	c.startShim(core.scheduler(), benchQueues)
	before, ownBefore, added := usedBy(b, core), used(), time.Now()
	for _, queue := range []string{"root.a", "root.b", "root.c", "root.d", "root.e"} {
		for app := range apps {
			made, _ := pods(fmt.Sprintf("%s-%d", queue, app), podsOfApp, 10, inQueue(queue), withMemory)
			c.addPods(made...)
		}
	}
	go w.endPods()
	<-w.all
	<-w.ended
	b.ReportMetric(float64(w.wanted)/w.last.Sub(w.first).Seconds(), "pods/s")
	b.ReportMetric(w.last.Sub(added).Seconds(), "s/all")
	b.ReportMetric(0, "ns/op")
	own, apart := used()-ownBefore, usedBy(b, core)-before
	b.ReportMetric((own+apart)*1e6/float64(w.wanted), "µs/pod")
	b.ReportMetric(own*1e6/float64(w.wanted), "shim-µs/pod")
	b.ReportMetric(apart*1e6/float64(w.wanted), "server-µs/pod")
	c.bound()
	c.stopShim()
}

func withMemory(pod *v1.Pod) {
	requests := pod.Spec.Containers[0].Resources.Requests
	requests[v1.ResourceMemory] = *resource.NewScaledQuantity(1, resource.Mega)
}

// watch sees pods come and lets them go.
type watch struct {
	cluster     *cluster
	wanted      int
	all, ended  chan struct{}
	mu          sync.Mutex
	count       int
	fresh       []string
	first, last time.Time
}

func (w *watch) bound(pod string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	if w.count == 0 {
		w.first = w.last
	}
	w.fresh = append(w.fresh, pod)
	if w.count++; w.count == w.wanted {
		close(w.all)
	}
}

// endPods has those that were bound run and succeed, once a second.
func (w *watch) endPods() {
	defer close(w.ended)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-w.all:
			return
		case <-clock.C:
		}
		w.mu.Lock()
		fresh := w.fresh
		w.fresh = nil
		w.mu.Unlock()
		for _, pod := range fresh {
			for _, phase := range []v1.PodPhase{v1.PodRunning, v1.PodSucceeded} {
				w.cluster.updatePod(pod, func(pod *v1.Pod) { pod.Status.Phase = phase })
			}
		}
	}
}
