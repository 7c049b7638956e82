package shimtest

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// watched is the shim's callback. The cluster keeps which pods the shim has refused somewhere, and what
// it was asked about victims.
type watched struct {
	*cache.AsyncRMCallback
	cluster *cluster
}

func (w watched) Predicates(args *si.PredicatesArgs) error {
	err := w.AsyncRMCallback.Predicates(args)
	if err != nil {
		w.cluster.mu.Lock()
		w.cluster.refused[args.GetAllocationKey()] = true
		w.cluster.mu.Unlock()
	}
	return err
}

func (w watched) PreemptionPredicates(args *si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	w.cluster.mu.Lock()
	w.cluster.questions = append(w.cluster.questions, args)
	w.cluster.mu.Unlock()
	return w.AsyncRMCallback.PreemptionPredicates(args)
}

// reading is the shim's client, which reads the pods of the cluster.
type reading struct {
	client.KubeClient
	cluster *cluster
}

// Get is called by the shim before it places a pod again.
func (r reading) Get(_, name string) (*v1.Pod, error) {
	if r.cluster.afterRead[name] != nil {
		defer r.cluster.afterRead[name]()
	}
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	if pod := r.cluster.pods[name]; pod != nil {
		return pod.DeepCopy(), nil
	}
	return nil, errors.NewNotFound(v1.Resource("pods"), name)
}

// create is called by the shim: there is a new pod, which waits.
func (c *cluster) create(pod *v1.Pod) (*v1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[pod.Name] != nil {
		return nil, fmt.Errorf("pod %s already exists", pod.Name)
	}
	created := pod.DeepCopy()
	created.UID = types.UID("uid-" + pod.Name)
	created.CreationTimestamp = metav1.NewTime(time.Now())
	created.Status.Phase = v1.PodPending
	c.pods[pod.Name] = created
	c.change(func(p *client.MockedAPIProvider) { p.AddPod(created.DeepCopy()) })
	return created, nil
}

// delete is called by the shim: the pod is stopped, and gone, unless pods take their time.
func (c *cluster) delete(pod *v1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.pods[pod.Name]
	if known == nil {
		return fmt.Errorf("pod %s not found", pod.Name)
	}
	c.deleted = append(c.deleted, pod.Name)
	if c.lasting {
		return nil
	}
	delete(c.pods, pod.Name)
	c.change(func(p *client.MockedAPIProvider) { p.DeletePod(known) })
	return nil
}
