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
	// bindsAtOnce is the maximum number of concurrent binds. More would wait for each other in the API server.
	bindsAtOnce = 64
	// stallTime is the time without the end of any bind after which waiting binds fail. The shim places their pods
	// again later.
	stallTime = 30 * time.Second
	// callTime is the timeout of a call. The shim holds a lock of the pod meanwhile.
	callTime = 10 * time.Second
	// tryTime is the time in which a call is retried, from its first attempt on: longer than one callTime.
	tryTime = 15 * time.Second
)

// backoff is the back-off between the attempts of one call.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 2 * time.Second}
}

// Bind binds a pod to a node. Temporary failures are retried for some seconds. An error means that the pod is not
// bound to the node, or that the result is unknown.
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
		// An earlier attempt may have bound the pod, although its answer was lost.
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

// slots limits the number of concurrent binds.
type slots struct {
	taken chan struct{}
	moved atomic.Int64 // time of the last change of a slot, in nanoseconds
}

// take waits for a slot, as long as other binds end.
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

// isBound returns whether the API server has the pod on the node.
func (c *Client) isBound(pod *v1.Pod, node string) bool {
	found, err := c.Get(pod.Namespace, pod.Name)
	return err == nil && found.UID == pod.UID && found.Spec.NodeName == node
}

// Passes returns whether a failure is temporary: the API server was not reached, did not answer, or is
// overloaded.
func Passes(err error) bool {
	reason, isAnswer := err.(errors.APIStatus)
	if !isAnswer {
		return true
	}
	code := reason.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
