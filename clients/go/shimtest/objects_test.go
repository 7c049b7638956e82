package shimtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	corelog "github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-k8shim/pkg/common/constants"
	shimlog "github.com/apache/yunikorn-k8shim/pkg/log"
	"github.com/apache/yunikorn-k8shim/pkg/plugin/predicates"
)

// quiet is a configuration that lets the shim and its core log errors only.
var quiet = map[string]string{"log.level": "ERROR"}

func TestMain(m *testing.M) {
	shimlog.UpdateLoggingConfig(quiet)
	corelog.UpdateLoggingConfig(quiet)
	if os.Getenv(servesOlder) != "" {
		if err := serveOlder(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("LICORNE_BIN") == "" {
		fmt.Fprintln(os.Stderr, "LICORNE_BIN is not set: it is the path of the licorne command, as in .venv/bin/licorne")
		os.Exit(1)
	}
	predicates.EnableOptionalKubernetesFeatureGates()
	code := m.Run()
	if shared != nil {
		shared.kill()
	}
	os.Exit(code)
}

// silent records no Kubernetes events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// aNode has so many cores, and plenty of the rest.
func aNode(name string, cores int64, edits ...func(*v1.Node)) *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"kubernetes.io/hostname": name},
		},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	setCores(node, cores)
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func setCores(node *v1.Node, cores int64) {
	amounts := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(cores, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(64<<30, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	node.Status.Allocatable, node.Status.Capacity = amounts, amounts
}

func labelled(name, value string) func(*v1.Node) {
	return func(node *v1.Node) { node.Labels[name] = value }
}

// aPod wants thousandths of a core, as a pod of an application in the queue root.default.
func aPod(app, name string, millis int64, edits ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			Namespace:         "default",
			UID:               types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(time.Now()),
			Labels:            map[string]string{"app": app},
			Annotations: map[string]string{
				constants.AnnotationApplicationID: app,
				constants.AnnotationQueueName:     "root.default",
			},
		},
		Spec: v1.PodSpec{
			SchedulerName: constants.SchedulerName,
			Containers: []v1.Container{{
				Name:      "main",
				Resources: v1.ResourceRequirements{Requests: cpu(millis)},
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func cpu(millis int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(millis, resource.DecimalSI)}
}

// pods are so many of an application, named app-0 and so on.
func pods(app string, count int, millis int64, edits ...func(*v1.Pod)) (made []*v1.Pod, names []string) {
	for n := range count {
		name := fmt.Sprintf("%s-%d", app, n)
		made = append(made, aPod(app, name, millis, edits...))
		names = append(names, name)
	}
	return made, names
}

func selecting(name, value string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{name: value} }
}

// notBesideItsLike keeps pods of one application off each other's nodes.
func notBesideItsLike(pod *v1.Pod) { apartBy("kubernetes.io/hostname", pod) }

// notInOneZone keeps pods of one application out of each other's zones.
func notInOneZone(pod *v1.Pod) { apartBy("zone", pod) }

func apartBy(label string, pod *v1.Pod) {
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
			TopologyKey:   label,
		}},
	}}
}

// ofDaemonSet makes the pod one of a daemon set, which is to run on the node.
func ofDaemonSet(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: constants.DaemonSetType, Name: "agent", UID: "ds"}}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchFields: []v1.NodeSelectorRequirement{{
						Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node},
					}},
				}},
			},
		}}
		pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	}
}

// inQueue puts the pod into another queue.
func inQueue(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Annotations[constants.AnnotationQueueName] = name }
}

// foreign makes the pod one of another scheduler, which runs on the node.
func foreign(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.SchedulerName = "default-scheduler"
		pod.Spec.NodeName = node
		pod.Status.Phase = v1.PodRunning
		pod.Annotations = nil
	}
}
