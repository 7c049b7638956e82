package shimtest

import (
	"fmt"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/listers/core/v1"

	"licorne.dev/clients/go/schedulerapi"
	"licorne.dev/clients/go/shimtest/objects"
)

// annotated gives the pod one more annotation.
func annotated(name, value string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Annotations[name] = value }
}

// nodeTags are the attributes of a node, and the tags of what runs there by key.
func (s *server) nodeTags(id string) (attributes map[string]string, tags map[string]map[string]string) {
	var nodes []struct {
		NodeID      string
		Attributes  map[string]string
		Allocations []struct {
			AllocationKey  string
			AllocationTags map[string]string
		}
	}
	s.get("/ws/v1/partition/default/nodes", &nodes)
	tags = map[string]map[string]string{}
	for _, node := range nodes {
		if node.NodeID == id {
			attributes = node.Attributes
			for _, allocation := range node.Allocations {
				tags[allocation.AllocationKey] = allocation.AllocationTags
			}
		}
	}
	return attributes, tags
}

// The server gets what the shim leaves out: labels of nodes, those that the shim starts with and later
// ones, and annotations of pods, those of an application from its first pod.
func TestAnnotationsAndLabelsReachTheServer(t *testing.T) {
	core := startLicorne(t)
	c := newCluster(t)
	lister := &nodesOf{cluster: c}
	c.objects = objects.Of(lister)
	scheduler := core.with(func(o *schedulerapi.Options) { o.Cluster = c.objects })
	c.addNodes(aNode("n1", 2, labelled("rack", "r1")))
	c.startShim(scheduler, queues)
	c.addNodes(aNode("n2", 2, labelled("rack", "r2")))
	first := aPod("app", "app-0", 1500, annotated("licorne.dev/runtime", "60"), annotated("licorne.dev/start-by", "1700000000"))
	c.addPods(first, aPod("app", "app-1", 1500), aPod("plain", "plain-0", 100))
	on := c.comesToBind("app-0", "app-1", "plain-0")
	tags := map[string]map[string]string{}
	// A pod is bound when its node is accepted; the server books it when it has the answer.
	until(t, func() bool {
		for _, id := range []string{"n1", "n2"} {
			_, here := core.nodeTags(id)
			maps.Copy(tags, here)
		}
		return len(tags) == len(on)
	}, func() any { return tags })
	for id, rack := range map[string]string{"n1": "r1", "n2": "r2"} {
		if attributes, _ := core.nodeTags(id); attributes["rack"] != rack {
			t.Errorf("%s has the attributes %v", id, attributes)
		}
	}
	if got := tags["uid-app-0"]["licorne/runtime"]; got != "60" {
		t.Errorf("the pod is on %v with the tags %v", on, tags)
	}
	for _, plain := range []string{"uid-app-1", "uid-plain-0"} {
		if _, there := tags[plain]["licorne/runtime"]; there {
			t.Errorf("%s has the tags %v", plain, tags[plain])
		}
	}
	if got := c.objects.ApplicationAnnotations("app")["licorne.dev/runtime"]; got != "60" {
		t.Errorf("the application has %v", got)
	}
	if got := c.objects.ApplicationAnnotations("other"); got != nil {
		t.Errorf("an unknown application has %v", got)
	}
}

// nodesOf lists the nodes of a cluster.
type nodesOf struct {
	corev1.NodeLister

	cluster *cluster
}

func (l *nodesOf) Get(name string) (*v1.Node, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	if node := l.cluster.nodes[name]; node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("node %s not found", name)
}
