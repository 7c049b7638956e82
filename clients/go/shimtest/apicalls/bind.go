package apicalls

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// bindsAtOnce is how many binds are under way at a time. More wait for each other in the API server.
	bindsAtOnce = 64
	// stallTime is for how long no bind may come to its end before those that wait for others are given up. The shim
	// places their pods again later.
	stallTime = 30 * time.Second
	// callTime is how long a call may take. The shim holds a lock of the pod meanwhile.
	callTime = 10 * time.Second
	// tryTime is for how long a call is tried again, from its first try on: more than one without an answer.
	tryTime = 15 * time.Second
)

// backoff is what is waited between the tries of one call.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 2 * time.Second}
}

// Bind binds a pod to a node. What may pass is tried again for some seconds. An error means that the pod is not
// bound to the node, or that the API server does not say.
func (c *Client) Bind(pod *v1.Pod, node string) error {
	c.load.enter()
	defer c.load.leave()
	c.statuses.drop(pod.UID)
	begin := time.Now()
	for pause := backoff(); ; {
		err := c.tryBind(pod, node)
		if err == nil {
			return nil
		}
		passing := Passes(err)
		if passing && time.Since(begin) < tryTime {
			time.Sleep(pause.Step())
			continue
		}
		// An earlier try may have bound it, although its answer did not come.
		if (passing || errors.IsConflict(err)) && c.isBound(pod, node) {
			return nil
		}
		slog.Error("a pod was not bound", "pod", pod.Namespace+"/"+pod.Name, "node", node, "error", err)
		return fmt.Errorf("bind of pod %s/%s to node %s: %w", pod.Namespace, pod.Name, node, err)
	}
}

func (c *Client) tryBind(pod *v1.Pod, node string) error {
	if err := c.slots.take(); err != nil {
		return err
	}
	defer c.slots.free()
	ctx, done := context.WithTimeout(context.Background(), callTime)
	defer done()
	return c.set.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// slots are those of binds that are under way.
type slots struct {
	taken chan struct{}
	moved atomic.Int64 // when the last one was taken or free, in nanoseconds
}

// take waits for a slot as long as others come to their end.
func (s *slots) take() error {
	for {
		select {
		case s.taken <- struct{}{}:
			s.moved.Store(time.Now().UnixNano())
			return nil
		case <-time.After(stallTime):
			if time.Since(time.Unix(0, s.moved.Load())) >= stallTime {
				return fmt.Errorf("none of %d binds has come to its end within %v", bindsAtOnce, stallTime)
			}
		}
	}
}

func (s *slots) free() {
	<-s.taken
	s.moved.Store(time.Now().UnixNano())
}

// isBound says whether the API server has the pod on the node.
func (c *Client) isBound(pod *v1.Pod, node string) bool {
	found, err := c.Get(pod.Namespace, pod.Name)
	return err == nil && found.UID == pod.UID && found.Spec.NodeName == node
}

// Passes says whether a later try of a call may succeed: the API server was not reached, did not answer, or has
// too much to do.
func Passes(err error) bool {
	reason, isAnswer := err.(errors.APIStatus)
	if !isAnswer {
		return true
	}
	code := reason.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
