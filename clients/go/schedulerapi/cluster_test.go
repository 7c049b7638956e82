package schedulerapi

import (
	"maps"
	"sync"
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// objects is a Cluster with the facts of one pod, one application and one node.
type objects struct {
	pod, application, node map[string]string
	// held is locked during a call of the shim, like the shim's lock of an application.
	held sync.Mutex
}

func (o *objects) PodAnnotations(key string) map[string]string {
	if key == "k1" {
		return o.pod
	}
	return nil
}

func (o *objects) ApplicationAnnotations(string) map[string]string {
	o.held.Lock()
	defer o.held.Unlock()
	return o.application
}

func (o *objects) NodeLabels(string) map[string]string { return o.node }

func (o *objects) known(options *Options) { options.Cluster = o }

// latest returns the last sent request of a kind; nil if there is none.
func latest[T any](s *script) (found T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.requests {
		if one, ok := request.(T); ok {
			found = one
		}
	}
	return found
}

// The annotations of a pod become tags of its ask, except those for applications. The shim's own tags
// override them, and its message is unchanged.
func TestAnnotationsOfAPodBecomeTags(t *testing.T) {
	cluster := &objects{pod: map[string]string{
		"licorne.dev/runtime": "60", "licorne.dev/start-by": "1700000000", "licorne.dev/topology": "required=rack",
		"licorne.dev/gang-min": "2", "licorne.dev/other": "x", "team": "a",
	}}
	s := setStage(t, cluster.known)
	ask, plain := allocation("k1", ""), allocation("k2", "")
	ask.AllocationTags = map[string]string{"label": "x", licorne.TagRuntime: "5"}
	foreign := &si.Allocation{AllocationKey: "k1", NodeID: "n1", AllocationTags: map[string]string{"foreign": "static"}}
	s.ask(ask, plain, foreign)
	sent := latest[*si.AllocationRequest](s.server).GetAllocations()
	want := map[string]string{"label": "x", licorne.TagRuntime: "5", licorne.TagStartBy: "1700000000"}
	if got := sent[0].GetAllocationTags(); !maps.Equal(got, want) {
		t.Fatalf("the tags are %v", got)
	}
	if len(ask.GetAllocationTags()) != 2 || sent[1] != plain || sent[2] != foreign {
		t.Fatalf("the shim's messages became %v", sent)
	}
}

// An application gets all tags after the shim has released its lock, and the order of requests is preserved.
func TestAnnotationsOfAnApplicationBecomeTags(t *testing.T) {
	cluster := &objects{application: map[string]string{
		"licorne.dev/runtime": "60", "licorne.dev/topology": "required=rack", "licorne.dev/slice": "size=2,level=nvlink",
		"licorne.dev/gang-min": "4", "licorne.dev/gang-max": "8", "licorne.dev/gang-step": "2",
	}}
	s := setStage(t, cluster.known)
	added := &si.AddApplicationRequest{
		ApplicationID: "app", QueueName: "root.a", PartitionName: "p", GangSchedulingStyle: "Hard",
		Tags: map[string]string{"namespace": "a"}, ExecutionTimeoutMilliSeconds: 7,
		PlaceholderAsk: &si.Resource{}, Ugi: &si.UserGroupInformation{User: "u"},
	}
	removed := &si.RemoveApplicationRequest{ApplicationID: "app"}
	cluster.held.Lock()
	if err := s.rm.updateApplication(&si.ApplicationRequest{New: []*si.AddApplicationRequest{added}}); err != nil {
		t.Fatal(err)
	}
	if err := s.rm.updateApplication(&si.ApplicationRequest{Remove: []*si.RemoveApplicationRequest{removed}}); err != nil {
		t.Fatal(err)
	}
	s.sees(s.server.take)
	cluster.held.Unlock()
	s.comesToSee(s.server.take, "applications +1 -0", "applications +0 -1")
	s.server.mu.Lock()
	first, _ := s.server.requests[len(s.server.requests)-2].(*si.ApplicationRequest)
	s.server.mu.Unlock()
	sent := first.GetNew()[0]
	want := map[string]string{
		"namespace": "a", licorne.TagRuntime: "60", licorne.TagTopology: "required=rack",
		licorne.TagSlice: "size=2,level=nvlink", licorne.TagGangMin: "4", licorne.TagGangMax: "8", licorne.TagGangStep: "2",
	}
	if !maps.Equal(sent.GetTags(), want) || len(added.GetTags()) != 1 {
		t.Fatalf("the tags are %v, and those of the shim %v", sent.GetTags(), added.GetTags())
	}
	if sent.GetQueueName() != "root.a" || sent.GetPartitionName() != "p" || sent.GetGangSchedulingStyle() != "Hard" ||
		sent.GetExecutionTimeoutMilliSeconds() != 7 || sent.GetPlaceholderAsk() == nil || sent.GetUgi().GetUser() != "u" {
		t.Fatalf("the application became %v", sent)
	}
}

// The labels of a node are attributes from its creation on; none overrides one with a special meaning.
func TestLabelsOfANodeBecomeAttributes(t *testing.T) {
	cluster := &objects{node: map[string]string{"rack": "r1", "si/node-partition": "other"}}
	s := setStage(t, cluster.known)
	node := &si.NodeInfo{
		NodeID: "n4", Action: si.NodeInfo_CREATE_DRAIN, Attributes: map[string]string{"rack": "own", "si.io/hostname": "n4"},
		SchedulableResource: &si.Resource{},
	}
	if err := s.rm.updateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{node}}); err != nil {
		t.Fatal(err)
	}
	got := latest[*si.NodeRequest](s.server).GetNodes()[0]
	if !maps.Equal(got.GetAttributes(), map[string]string{"rack": "own", "si.io/hostname": "n4"}) ||
		got.GetSchedulableResource() == nil {
		t.Fatalf("the node is %v", got)
	}
	s.node("n5", si.NodeInfo_CREATE)
	if got := latest[*si.NodeRequest](s.server).GetNodes()[0]; !maps.Equal(got.GetAttributes(), map[string]string{"rack": "r1"}) {
		t.Fatalf("the node is %v", got)
	}
	s.node("n5", si.NodeInfo_DRAIN_NODE)
	if got := latest[*si.NodeRequest](s.server).GetNodes()[0]; len(got.GetAttributes()) != 0 {
		t.Fatalf("the node is %v", got)
	}
}
