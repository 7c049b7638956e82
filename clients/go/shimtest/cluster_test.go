package shimtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/constants"
	"github.com/apache/yunikorn-k8shim/pkg/common/events"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-k8shim/pkg/dispatcher"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/shimtest/judging"
	"licorne.dev/clients/go/shimtest/objects"
	"licorne.dev/clients/go/shimtest/running"
)

const (
	// patient is how long a test waits for what has to come.
	patient = 30 * time.Second
	// anyPlaceholder stands for the placeholders, whose names the shim makes, among pods whose binds fail.
	anyPlaceholder = "placeholder"
)

// cluster plays Kubernetes: it has nodes and pods, runs what is bound, and tells the shim. It outlives
// the shim.
type cluster struct {
	t testing.TB

	mu         sync.Mutex
	nodes      map[string]*v1.Node
	pods       map[string]*v1.Pod
	binds      map[string][]string // the nodes that each pod was bound to, in order
	afterRead  map[string]func()   // what happens once a pod has been read; set before the pod is added
	unbindable map[string]int      // how many binds of a pod fail yet
	order      []string            // the pods in the order in which they were bound
	deleted    []string            // the pods that the shim has deleted, in order
	refused    map[string]bool     // the UIDs of pods that the shim has refused on some node
	questions  []*si.PreemptionPredicatesArgs
	conditions map[string]v1.PodCondition
	failed     map[string]string // why the shim failed a pod
	onBind     func(pod string)
	late       bool                              // bound pods do not run before the test says so
	lasting    bool                              // deleted pods run until the test removes them
	changes    []func(*client.MockedAPIProvider) // that the shim has not been told of
	changed    *sync.Cond
	shim       *shim
	objects    *objects.Objects // for a scheduler that asks for annotations and labels; nil for none
}

// shim is one life of the shim's process.
type shim struct {
	provider *client.MockedAPIProvider
	running  *running.Shim
	context  *cache.Context
	callback watched
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{
		t:          t,
		nodes:      map[string]*v1.Node{},
		pods:       map[string]*v1.Pod{},
		binds:      map[string][]string{},
		unbindable: map[string]int{},
		afterRead:  map[string]func(){},
		conditions: map[string]v1.PodCondition{},
		failed:     map[string]string{},
		refused:    map[string]bool{},
	}
	c.changed = sync.NewCond(&c.mu)
	t.Cleanup(c.stopShim)
	return c
}

// startShim starts a shim that finds the cluster as it is, and waits until it has told the core.
func (c *cluster) startShim(scheduler api.SchedulerAPI, queues string) {
	c.t.Helper()
	s := c.newShim(scheduler)
	c.mu.Lock()
	for _, node := range c.nodes {
		s.provider.GetNodeListerMock().AddNode(node)
	}
	for _, pod := range c.pods {
		s.provider.GetPodListerMock().AddPod(pod.DeepCopy())
	}
	c.changes = nil
	c.shim = s
	c.mu.Unlock()
	_, err := scheduler.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID:        conf.GetSchedulerConf().ClusterID,
		PolicyGroup: conf.GetSchedulerConf().PolicyGroup,
		Version:     "1.8.0",
		Config:      queues,
		ExtraConfig: quiet,
	}, s.callback)
	if err != nil {
		c.t.Fatalf("the shim cannot register: %v", err)
	}
	if err := s.context.InitializeState(); err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { c.tell(s) })
	s.done.Go(func() { s.running.Work(ctx) })
}

// noVolumes finds that a pod needs no volumes. The shim asks about a pod that leaves while it is bound, and fails
// on the nil of its own mock.
type noVolumes struct {
	volumebinding.SchedulerVolumeBinder
}

func (noVolumes) FindPodVolumes(
	klog.Logger, *v1.Pod, *volumebinding.PodVolumeClaims, *v1.Node,
) (*volumebinding.PodVolumes, volumebinding.ConflictReasons, error) {
	return &volumebinding.PodVolumes{}, nil, nil
}

// newShim puts a shim together that has seen nothing yet.
func (c *cluster) newShim(scheduler api.SchedulerAPI) *shim {
	s := &shim{provider: client.NewMockedAPIProvider(false), stop: func() {}}
	apis := s.provider.GetAPIs()
	apis.SchedulerAPI = scheduler
	s.provider.MockBindFn(c.bind)
	s.provider.MockUpdateStatusFn(c.updateStatus)
	s.provider.MockCreateFn(c.create)
	s.provider.MockDeleteFn(c.delete)
	apis.KubeClient = reading{apis.KubeClient, c}
	apis.VolumeBinder = noVolumes{apis.VolumeBinder}
	events.SetRecorder(silent{})
	dispatcher.UnregisterAllEventHandlers()
	s.running = running.New(s.provider, []*v1.ConfigMap{nil, nil})
	s.context = s.running.Context()
	if c.objects != nil {
		c.objects.Watch(s.context)
	}
	if judge, found := judges.Load(scheduler); found {
		if err := judge.(*judging.Judge).Watch(s.context, apis); err != nil {
			c.t.Fatal(err)
		}
	}
	s.callback = watched{cache.NewAsyncRMCallback(s.context), c}
	dispatcher.Start()
	s.provider.RunEventHandler()
	return s
}

// stopShim ends the shim's process, if there is one. The core is not told.
func (c *cluster) stopShim() {
	c.mu.Lock()
	s := c.shim
	c.shim = nil
	c.changed.Broadcast()
	c.mu.Unlock()
	if s != nil {
		s.stop()
		s.done.Wait()
		s.provider.Stop()
	}
}

// tell brings the changes of the cluster to the shim, in order.
func (c *cluster) tell(s *shim) {
	for {
		c.mu.Lock()
		for len(c.changes) == 0 && c.shim == s {
			c.changed.Wait()
		}
		if c.shim != s {
			c.mu.Unlock()
			return
		}
		changes := c.changes
		c.changes = nil
		c.mu.Unlock()
		for _, change := range changes {
			change(s.provider)
		}
	}
}

// change notes a change that the shim has to be told of; with the lock held.
func (c *cluster) change(change func(*client.MockedAPIProvider)) {
	if c.shim != nil {
		c.changes = append(c.changes, change)
		c.changed.Broadcast()
	}
}

func (c *cluster) addNodes(nodes ...*v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range nodes {
		c.nodes[node.Name] = node
		c.change(func(p *client.MockedAPIProvider) { p.AddNode(node) })
	}
}

func (c *cluster) updateNode(name string, edit func(*v1.Node)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.nodes[name]
	after := before.DeepCopy()
	edit(after)
	c.nodes[name] = after
	c.change(func(p *client.MockedAPIProvider) { p.UpdateNode(before, after) })
}

func (c *cluster) removeNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.nodes[name]
	delete(c.nodes, name)
	c.change(func(p *client.MockedAPIProvider) { p.DeleteNode(node) })
}

func (c *cluster) addPods(pods ...*v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range pods {
		c.pods[pod.Name] = pod
		c.change(func(p *client.MockedAPIProvider) { p.AddPod(pod.DeepCopy()) })
	}
}

func (c *cluster) updatePod(name string, edit func(*v1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.editPod(name, edit)
}

// editPod is updatePod with the lock held.
func (c *cluster) editPod(name string, edit func(*v1.Pod)) {
	before := c.pods[name]
	if before == nil {
		return
	}
	after := before.DeepCopy()
	edit(after)
	c.pods[name] = after
	// The shim writes into what it is given.
	c.change(func(p *client.MockedAPIProvider) { p.UpdatePod(before, after.DeepCopy()) })
}

func (c *cluster) removePod(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := c.pods[name]
	delete(c.pods, name)
	c.change(func(p *client.MockedAPIProvider) { p.DeletePod(pod) })
}

// configure replaces the queues by a config map, as a user does.
func (c *cluster) configure(queues string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	configMap := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: constants.ConfigMapName, Namespace: conf.GetSchedulerNamespace()},
		Data:       map[string]string{"queues.yaml": queues},
	}
	maps.Copy(configMap.Data, quiet)
	c.change(func(p *client.MockedAPIProvider) { p.AddConfigMap(configMap) })
}

// bind is called by the shim: the pod runs on the node from now on.
func (c *cluster) bind(pod *v1.Pod, node string) error {
	c.mu.Lock()
	unlucky := pod.Name
	if isPlaceholder(pod) {
		unlucky = anyPlaceholder
	}
	if c.unbindable[unlucky] > 0 {
		c.unbindable[unlucky]--
		c.mu.Unlock()
		return errors.New("the bind fails")
	}
	if c.pods[pod.Name] == nil {
		c.mu.Unlock()
		return fmt.Errorf("pod %s is not there", pod.Name)
	}
	c.binds[pod.Name] = append(c.binds[pod.Name], node)
	c.order = append(c.order, pod.Name)
	if !c.late {
		c.editPod(pod.Name, func(pod *v1.Pod) {
			pod.Spec.NodeName = node
			pod.Status.Phase = v1.PodRunning
		})
	}
	onBind := c.onBind
	c.mu.Unlock()
	if onBind != nil {
		onBind(pod.Name)
	}
	return nil
}

// updateStatus is called by the shim: a condition of the pod has changed, or it has failed.
func (c *cluster) updateStatus(pod *v1.Pod) (*v1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod.Status.Phase == v1.PodFailed {
		c.failed[pod.Name] = pod.Status.Message
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			c.conditions[pod.Name] = condition
		}
	}
	return pod, nil
}

// bound is where each pod was bound; the test fails if one was bound twice.
func (c *cluster) bound() map[string]string {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := map[string]string{}
	for pod, on := range c.binds {
		if len(on) > 1 {
			c.t.Fatalf("pod %s was bound %d times, to %v", pod, len(on), on)
		}
		nodes[pod] = on[0]
	}
	return nodes
}

func (c *cluster) condition(pod string) v1.PodCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conditions[pod]
}

// failure is why the shim failed a pod; "" if it did not.
func (c *cluster) failure(pod string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed[pod]
}

// comesToBind waits until the pods are bound, and returns where.
func (c *cluster) comesToBind(pods ...string) map[string]string {
	c.t.Helper()
	var nodes map[string]string
	until(c.t, func() bool {
		nodes = c.bound()
		return !slices.ContainsFunc(pods, func(pod string) bool { return nodes[pod] == "" })
	}, func() any { return slices.Sorted(maps.Keys(nodes)) })
	return nodes
}

// until waits for a condition; what there is instead is shown if it does not come.
func until(t testing.TB, condition func() bool, instead func() any) {
	t.Helper()
	for end := time.Now().Add(patient); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come; there is %v", instead())
		}
	}
}

// comesToBook waits until the core has booked so much on a node.
func comesToBook(t testing.TB, core backend, node string, want booked) {
	t.Helper()
	var got booked
	until(t, func() bool {
		got, _ = core.node(node)
		return got == want
	}, func() any { return got })
}
