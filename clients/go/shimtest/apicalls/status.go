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
	// statusesAtOnce is how many changes of status are under way at a time.
	statusesAtOnce = 8
	// statusTime is for how long a change is tried again.
	statusTime = 2 * time.Minute
)

// change is what is to become of the status of a pod: one of its conditions, or its failure.
type change struct {
	uid             types.UID
	namespace, name string
	patch           []byte
}

// UpdateStatus changes what the shim changes of a status: the condition of being placed, or that the pod has
// failed. It does so in the background, so that what the core says next is not kept waiting, and returns the pod as it
// is given. Only the newest change of a pod counts, and none once the pod is being bound.
func (c *Client) UpdateStatus(pod *v1.Pod) (*v1.Pod, error) {
	patch, err := statusPatch(pod)
	if err != nil {
		return nil, err
	}
	c.statuses.put(change{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, patch: patch})
	return pod, nil
}

// statusPatch has the UID, so that another pod of that name is left alone.
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

// statuses sends changes of status, the newest of each pod.
type statuses struct {
	send func(context.Context, change) error
	load *Load

	mu      sync.Mutex
	waiting map[types.UID]change
	order   []types.UID // of those that wait and are not being sent; some may have been dropped
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

// drop forgets the change of a pod. Afterwards none is under way.
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

// work sends until nothing waits.
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

// deliver sends one change, and again for a while if that may help.
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
