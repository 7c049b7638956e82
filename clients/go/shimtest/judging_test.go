package shimtest

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"licorne.dev/clients/go/shimtest/judging"
)

// withPort has the pod want a port of its node.
func withPort(pod *v1.Pod) {
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
}

// What is said of several nodes at a time is what the shim says of each of them, for each kind of pod.
func TestJudgingAgreesWithTheShim(t *testing.T) {
	core := startLicorne(t)
	zone := func(name string) func(*v1.Node) {
		return func(node *v1.Node) { node.Labels["zone"] = name }
	}
	tainted := func(node *v1.Node) {
		node.Spec.Taints = []v1.Taint{{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}}
	}
	cordoned := func(node *v1.Node) { node.Spec.Unschedulable = true }
	scheduler := core.scheduler()
	nowhere := func(pod *v1.Pod) {
		named := func(node string) v1.NodeSelectorRequirement {
			return v1.NodeSelectorRequirement{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}
		}
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{named("n1"), named("n2")}}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}}
	}
	c := newCluster(t)
	c.addNodes(aNode("n1", 2, zone("a")), aNode("n2", 2, zone("b")), aNode("n3", 2, zone("a"), tainted),
		aNode("n4", 2, zone("b"), cordoned), aNode("n5", 1, zone("c")))
	c.startShim(scheduler, queues)
	c.addPods(aPod("app", "first", 500, notInOneZone), aPod("port", "port", 500, withPort))
	c.comesToBind("first", "port")
	// Nobody else asks the predicates from now on.
	core.kill()
	large := int64(1_900)
	c.addPods(aPod("app", "apart", large, notInOneZone), aPod("app", "beside", large, notBesideItsLike),
		aPod("port", "other-port", large, withPort), aPod("app", "chosen", large, selecting("disk", "tape")),
		aPod("app", "plain", large), aPod("app", "of-a-node", large, ofDaemonSet("n2")),
		aPod("app", "nowhere", large, nowhere))
	shim := c.shim.context
	judge, _ := judges.Load(scheduler)
	nodes := []string{"n1", "n2", "n3", "n4", "n5", "gone"}
	for _, pod := range []string{"apart", "beside", "other-port", "chosen", "plain", "of-a-node", "nowhere"} {
		uid := string(c.pods[pod].UID)
		until(t, func() bool { return shim.GetSchedulerCache().GetPod(uid) != nil }, func() any { return "no pod " + pod })
		refused := judge.(*judging.Judge).Nodes(uid, nodes, time.Now().Add(time.Minute))
		for _, node := range nodes {
			want := shim.IsPodFitNode(uid, node, true)
			if got := refused[node]; (got == nil) != (want == nil) || (got != nil && got.Error() != want.Error()) {
				t.Errorf("%s on %s: %v, but the shim says %v", pod, node, got, want)
			}
		}
	}
	unknown := judge.(*judging.Judge).Nodes("nobody", nodes[:1], time.Now())
	if want := shim.IsPodFitNode("nobody", "n1", true); unknown["n1"].Error() != want.Error() {
		t.Errorf("a pod that has gone: %v, but the shim says %v", unknown, want)
	}
	late := judge.(*judging.Judge).Nodes(string(c.pods["plain"].UID), nodes[1:], time.Now().Add(-time.Hour))
	if late["n2"] == judging.ErrLate || late["n3"] != judging.ErrLate || late["gone"] != judging.ErrLate {
		t.Errorf("behind the first node there was no time: %v", late)
	}
}
