package apicalls

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// server is an API server with one pod, which answers binds in turn as the test says.
type server struct {
	*Client
	set *fake.Clientset

	mu      sync.Mutex
	answers []answer
	binds   []time.Duration
	begin   time.Time
	patches []string
}

// answer is that to a bind, and whether the pod is bound nevertheless.
type answer struct {
	err   error
	bound string
}

var resource = schema.GroupResource{Resource: "pods"}

func aPod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid"}}
}

func serve(t *testing.T, answers ...answer) *server {
	t.Helper()
	s := &server{set: fake.NewClientset(aPod()), answers: answers, begin: time.Now()}
	s.set.PrependReactor("create", "pods", s.bind)
	s.set.PrependReactor("patch", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.patches = append(s.patches, string(action.(k8stesting.PatchAction).GetPatch()))
		return true, aPod(), nil
	})
	s.Client = New(s.set, nil)
	return s
}

func (s *server) bind(action k8stesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.binds = append(s.binds, time.Since(s.begin))
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if next.bound != "" {
		pod := aPod()
		pod.Spec.NodeName = next.bound
		if err := s.set.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, "default"); err != nil {
			return true, nil, err
		}
	}
	return true, nil, next.err
}

// What passes is tried again, with pauses that grow, and what does not is not.
func TestBindsAreTriedAgain(t *testing.T) {
	conflict := apierrors.NewConflict(resource, "pod", errors.New("it is bound already"))
	busy := apierrors.NewTooManyRequests("busy", 1)
	for name, test := range map[string]struct {
		answers []answer
		binds   int
		fails   bool
	}{
		"at once":                    {[]answer{{}}, 1, false},
		"busy, then not":             {[]answer{{err: busy}, {err: busy}, {}}, 3, false},
		"an error of the server":     {[]answer{{err: apierrors.NewInternalError(errors.New("oh"))}, {}}, 2, false},
		"a time-out":                 {[]answer{{err: apierrors.NewTimeoutError("slow", 1)}, {}}, 2, false},
		"refused connection":         {[]answer{{err: errors.New("connection refused")}, {}}, 2, false},
		"bound, but the answer lost": {[]answer{{errors.New("reset"), "node"}, {err: conflict}}, 2, false},
		"bound to another node":      {[]answer{{conflict, "other"}}, 1, true},
		"gone":                       {[]answer{{err: apierrors.NewNotFound(resource, "pod")}}, 1, true},
		"forbidden":                  {[]answer{{err: apierrors.NewForbidden(resource, "pod", nil)}}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, test.answers...)
			err := s.Bind(aPod(), "node")
			if (err != nil) != test.fails {
				t.Errorf("%s: %v", name, err)
			}
			if len(s.binds) != test.binds {
				t.Errorf("%s: binds at %v", name, s.binds)
			}
		})
	}
}

// A bind that never succeeds ends with the error, within seconds and after few calls.
func TestBindIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		s := serve(t, answer{err: down})
		err := s.Bind(aPod(), "node")
		if !errors.Is(err, down) {
			t.Errorf("the error is %v", err)
		}
		if last := s.binds[len(s.binds)-1]; last > 2*tryTime || len(s.binds) > 20 {
			t.Errorf("binds at %v", s.binds)
		}
	})
}

// A bind whose answers are all lost is known by a look at the pod.
func TestBoundAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, answer{errors.New("reset"), "node"})
		if err := s.Bind(aPod(), "node"); err != nil {
			t.Errorf("the pod is bound, and the error is %v", err)
		}
	})
}

// withCondition has a condition of being placed, beside one of others.
func withCondition(message string) *v1.Pod {
	pod := aPod()
	pod.Status.Phase = v1.PodPending
	pod.Status.Conditions = []v1.PodCondition{
		{Type: "example.com/other", Status: v1.ConditionTrue},
		{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message},
	}
	return pod
}

// A change of status is one call, with what the shim changes and nothing else.
func TestStatusIsOnePatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		failed := aPod()
		failed.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "ApplicationRejected", Message: "no queue"}
		for _, pod := range []*v1.Pod{withCondition("full"), failed} {
			if _, err := s.UpdateStatus(pod); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if len(s.set.Actions()) != 2 {
			t.Errorf("the calls are %v", s.set.Actions())
		}
		var first, second struct {
			Metadata struct{ UID string }
			Status   v1.PodStatus
		}
		for i, into := range []any{&first, &second} {
			if err := json.Unmarshal([]byte(s.patches[i]), into); err != nil {
				t.Fatal(err)
			}
		}
		if first.Metadata.UID != "uid" || len(first.Status.Conditions) != 1 || first.Status.Conditions[0].Message != "full" {
			t.Errorf("the condition is changed by %s", s.patches[0])
		}
		if second.Status.Phase != v1.PodFailed || second.Status.Message != "no queue" || second.Status.Conditions != nil {
			t.Errorf("the failure is written by %s", s.patches[1])
		}
	})
}

// Of the changes of one pod only the newest is sent after one that is under way, and none once it is being bound.
func TestNewestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, answer{})
		var sent []string
		release := make(chan struct{})
		s.set.PrependReactor("patch", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
			sent = append(sent, string(action.(k8stesting.PatchAction).GetPatch()))
			<-release
			return true, aPod(), nil
		})
		for _, message := range []string{"one", "two", "three"} {
			if _, err := s.UpdateStatus(withCondition(message)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		release <- struct{}{}
		synctest.Wait()
		if _, err := s.UpdateStatus(withCondition("four")); err != nil {
			t.Fatal(err)
		}
		bound := make(chan error)
		go func() { bound <- s.Bind(aPod(), "node") }()
		synctest.Wait()
		close(release)
		if err := <-bound; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(sent) != 2 || !strings.Contains(sent[1], "three") {
			t.Errorf("sent was %v", sent)
		}
		s.Load().Settle(t.Context(), 0, 0, time.Time{})
	})
}

// Who waits for the load to settle goes on once there were no calls for a while, or late, with few calls.
func TestLoadSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load, begin := &Load{}, time.Now()
		for range 3 {
			load.enter()
		}
		var quiet, late time.Duration
		go func() {
			load.Settle(t.Context(), 1, time.Second, begin.Add(time.Hour))
			quiet = time.Since(begin)
		}()
		go func() {
			load.Settle(t.Context(), 1, time.Second, begin.Add(10*time.Second))
			late = time.Since(begin)
		}()
		time.Sleep(20 * time.Second)
		load.leave()
		synctest.Wait()
		if late != 0 {
			t.Error("two calls are more than one")
		}
		load.leave()
		time.Sleep(busyLook)
		synctest.Wait()
		if late < 20*time.Second || late > 20*time.Second+busyLook || quiet != 0 {
			t.Errorf("with one call it was late after %v, and quiet after %v", late, quiet)
		}
		time.Sleep(10 * time.Second)
		load.leave()
		time.Sleep(5 * time.Second)
		if want := 31*time.Second + busyLook; quiet < want || quiet > want+busyLook {
			t.Errorf("it was quiet after %v, not %v", quiet, want)
		}
	})
}

// Who waits for the load to settle goes on when its context ends, whatever is under way.
func TestSettlingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load, begin := &Load{}, time.Now()
		load.enter()
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		load.Settle(ctx, 0, time.Second, begin.Add(time.Hour))
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A bind waits for others as long as they come to their ends, however many there are, and no longer.
func TestBindsWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, answer{})
		for range bindsAtOnce {
			if err := s.slots.take(); err != nil {
				t.Fatal(err)
			}
		}
		bound := make(chan error)
		go func() { bound <- s.Bind(aPod(), "node") }()
		// Two slots come free, and are taken again by others that waited before.
		for range 2 {
			time.Sleep(stallTime - time.Second)
			s.slots.moved.Store(time.Now().UnixNano())
		}
		err := <-bound
		took := time.Since(s.begin)
		if err == nil || !strings.Contains(err.Error(), "none of 64 binds has come to its end within 30s") {
			t.Errorf("the error is %v", err)
		}
		if least := 3*stallTime - 2*time.Second; took < least || took > least+stallTime {
			t.Errorf("it waited for %v", took)
		}
	})
}
