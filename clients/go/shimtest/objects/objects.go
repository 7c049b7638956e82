// Package objects reads facts from a running shim that its messages lack: annotations of pods, and labels of
// nodes.
package objects

import (
	"cmp"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/listers/core/v1"

	"github.com/apache/yunikorn-k8shim/pkg/cache"

	"licorne.dev/clients/go/schedulerapi"
)

// Objects reads the objects of one shim. It is created before the shim, because the shim needs the scheduler that
// uses it.
type Objects struct {
	nodes corev1.NodeLister
	shim  atomic.Pointer[cache.Context]
}

var _ schedulerapi.Cluster = (*Objects)(nil)

// Of returns Objects with the nodes of a lister. Watch sets the shim, for its pods.
func Of(nodes corev1.NodeLister) *Objects { return &Objects{nodes: nodes} }

// Watch sets the shim; it must be called before the shim starts.
func (o *Objects) Watch(shim *cache.Context) { o.shim.Store(shim) }

// PodAnnotations returns the annotations of the pod with this UID. It locks only the shim's cache of pods.
func (o *Objects) PodAnnotations(uid string) map[string]string {
	shim := o.shim.Load()
	if shim == nil {
		return nil
	}
	pod := shim.GetSchedulerCache().GetPod(uid)
	if pod == nil {
		return nil
	}
	return pod.GetAnnotations()
}

// ApplicationAnnotations returns the annotations of the application's first pod. After a restart of the shim that
// pod may no longer exist; then they are those of its oldest pod.
func (o *Objects) ApplicationAnnotations(id string) map[string]string {
	shim := o.shim.Load()
	if shim == nil {
		return nil
	}
	application := shim.GetApplication(id)
	if application == nil {
		return nil
	}
	if first := application.GetOriginatingTask(); first != nil {
		return first.GetTaskPod().GetAnnotations()
	}
	tasks := slices.Concat(application.GetNewTasks(), application.GetPendingTasks(),
		application.GetAllocatedTasks(), application.GetBoundTasks())
	if len(tasks) == 0 {
		return nil
	}
	oldest := slices.MinFunc(tasks, func(one, other *cache.Task) int {
		return byAge(one.GetTaskPod(), other.GetTaskPod())
	})
	return oldest.GetTaskPod().GetAnnotations()
}

func byAge(one, other *v1.Pod) int {
	return cmp.Or(
		one.GetCreationTimestamp().Compare(other.GetCreationTimestamp().Time),
		cmp.Compare(one.GetName(), other.GetName()),
	)
}

// NodeLabels returns the present labels of a node. The shim's cache has a new node before the shim registers it, and
// the lister has the nodes from the shim's start.
func (o *Objects) NodeLabels(name string) map[string]string {
	if shim := o.shim.Load(); shim != nil {
		if known := shim.GetSchedulerCache().GetNode(name); known != nil && known.Node() != nil {
			return known.Node().GetLabels()
		}
	}
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node.GetLabels()
}
