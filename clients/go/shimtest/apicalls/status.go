package apicalls

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// statusesAtOnce is the maximum number of concurrent status changes.
	statusesAtOnce = 8
	// statusTime is the time in which a change is retried.
	statusTime = 2 * time.Minute
)

// change is a change of a pod's status: one of its conditions, or its failure.
type change struct {
	uid             types.UID
	namespace, name string
	patch           []byte
}

// UpdateStatus sends the parts of a status that the shim changes: the condition PodScheduled, or the failure of the
// pod. It works in the background, so that it does not delay the core's next messages, and returns the given pod. Only
// the newest change of a pod is sent, and none once the pod is being bound.
func (c *Client) UpdateStatus(pod *v1.Pod) (*v1.Pod, error) {
	patch, err := statusPatch(pod)
	if err != nil {
		return nil, err
	}
	c.statuses.put(change{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, patch: patch})
	return pod, nil
}

// statusPatch returns the patch, with the UID so that a new pod of the same name is not changed.
func statusPatch(pod *v1.Pod) ([]byte, error) {
	status := map[string]any{}
	if pod.Status.Phase == v1.PodFailed {
		status["phase"], status["reason"], status["message"] = pod.Status.Phase, pod.Status.Reason, pod.Status.Message
	} else {
		var conditions []v1.PodCondition
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodScheduled {
				conditions = append(conditions, condition)
			}
		}
		status["conditions"] = conditions
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
}

func (c *Client) patchStatus(ctx context.Context, one change) error {
	within, done := context.WithTimeout(ctx, callTime)
	defer done()
	_, err := c.set.CoreV1().Pods(one.namespace).Patch(
		within, one.name, types.StrategicMergePatchType, one.patch, metav1.PatchOptions{}, "status")
	return err
}

// statuses sends the newest status change of each pod.
type statuses struct {
	send func(context.Context, change) error
	load *Load

	mu      sync.Mutex
	waiting map[types.UID]change
	order   []types.UID // waiting pods in order, without those that are being sent; some may be dropped
	sending map[types.UID]sent
	workers int
}

// sent is a change that is being sent.
type sent struct {
	stop func()
	done chan struct{}
}

func newStatuses(send func(context.Context, change) error, load *Load) *statuses {
	return &statuses{send: send, load: load, waiting: map[types.UID]change{}, sending: map[types.UID]sent{}}
}

func (s *statuses) put(one change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.waiting[one.uid]; !known {
		s.load.enter()
		if _, busy := s.sending[one.uid]; !busy {
			s.order = append(s.order, one.uid)
		}
	}
	s.waiting[one.uid] = one
	if s.workers < statusesAtOnce {
		s.workers++
		go s.work()
	}
}

// drop removes the change of a pod, and waits until none is being sent.
func (s *statuses) drop(uid types.UID) {
	s.mu.Lock()
	s.forget(uid)
	busy, found := s.sending[uid]
	s.mu.Unlock()
	if found {
		busy.stop()
		<-busy.done
	}
}

func (s *statuses) forget(uid types.UID) {
	if _, known := s.waiting[uid]; known {
		delete(s.waiting, uid)
		s.load.leave()
	}
}

// work sends changes until none waits.
func (s *statuses) work() {
	for {
		one, ctx, found := s.next()
		if !found {
			return
		}
		s.deliver(ctx, one)
		s.finish(one.uid)
	}
}

func (s *statuses) next() (change, context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		uid := s.order[0]
		s.order = s.order[1:]
		one, wanted := s.waiting[uid]
		if _, busy := s.sending[uid]; !wanted || busy {
			continue
		}
		delete(s.waiting, uid)
		ctx, stop := context.WithCancel(context.Background())
		s.sending[uid] = sent{stop, make(chan struct{})}
		return one, ctx, true
	}
	s.workers--
	return change{}, nil, false
}

func (s *statuses) finish(uid types.UID) {
	s.load.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending[uid].stop()
	close(s.sending[uid].done)
	delete(s.sending, uid)
	if _, again := s.waiting[uid]; again {
		s.order = append(s.order, uid)
	}
}

// deliver sends one change, and retries temporary failures for a while.
func (s *statuses) deliver(ctx context.Context, one change) {
	begin := time.Now()
	for pause := backoff(); ; {
		err := s.send(ctx, one)
		switch {
		case err == nil, ctx.Err() != nil, errors.IsNotFound(err), errors.IsConflict(err):
			return
		case !Passes(err), time.Since(begin) > statusTime:
			slog.Warn("the status of a pod was not changed", "pod", one.namespace+"/"+one.name, "error", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.Step()):
		}
	}
}
