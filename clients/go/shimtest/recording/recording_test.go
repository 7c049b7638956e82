package recording

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// posted is a recorder, and an API server that takes its events as the test says.
type posted struct {
	*Recorder
	mu     sync.Mutex
	events []*eventsv1.Event
	tries  int
	fails  error
	busy   chan struct{} // closed unless binds are waiting
	reason Reason
	unsure error
	looks  []time.Duration
	gone   sync.Map // pods that the shim does not place any more
	asked  func()   // called when the shim is asked whether it places a pod
	begin  time.Time
}

func record(t *testing.T) *posted {
	t.Helper()
	p := &posted{busy: make(chan struct{}), begin: time.Now()}
	close(p.busy)
	p.Recorder = New(Options{
		Post: func(_ context.Context, event *eventsv1.Event) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tries++
			if p.fails == nil {
				p.events = append(p.events, event)
			}
			return p.fails
		},
		Settle: func(context.Context, time.Time) { <-p.busy },
		Why: func(context.Context, string, string) (Reason, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.looks = append(p.looks, time.Since(p.begin))
			return p.reason, p.unsure
		},
		Waits: func(_, key string) bool {
			if p.asked != nil {
				p.asked()
			}
			_, gone := p.gone.Load(types.UID(key))
			return !gone
		},
		Controller: "yunikorn", Instance: "yunikorn-host",
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return p
}

func aPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
}

func (p *posted) normal(pod *v1.Pod, reason, action, note string) {
	p.Eventf(pod, nil, v1.EventTypeNormal, reason, action, note)
}

// queued is what the shim says of a pod that it asks for.
func (p *posted) queued(pod *v1.Pod) {
	p.normal(pod, "Scheduling", "Scheduling", pod.Name+" is queued")
}

// bound is what it says of one that is placed and bound.
func (p *posted) bound(pod *v1.Pod) {
	p.normal(pod, "Scheduled", "Scheduled", "Successfully assigned "+pod.Name+" to node n")
	p.normal(pod, "PodBindSuccessful", "PodBindSuccessful", "Pod is successfully bound to node n")
}

// notes are those posted so far, each with its reason, in the order of their texts.
func (p *posted) notes() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var notes []string
	for _, event := range p.events {
		notes = append(notes, event.Reason+" "+event.Note)
	}
	slices.Sort(notes)
	return notes
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("posted was\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A pod that is placed at once has one event, with its node, its time in the queue and its task group.
func TestOneEventForAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		pod := aPod("pod")
		p.queued(pod)
		p.normal(pod, "GangScheduling", "TaskGroupMatch", "Pod belongs to the taskGroup w")
		time.Sleep(120 * time.Millisecond)
		p.bound(pod)
		p.normal(pod, "TaskCompleted", "TaskCompleted", "Task is completed")
		time.Sleep(time.Hour)
		expect(t, p.notes(), "Scheduled Successfully assigned pod to node n, bound 120ms after it was queued."+
			" Pod belongs to the taskGroup w")
		event := p.events[0]
		if event.Regarding.UID != "pod" || event.Namespace != "default" || event.ReportingInstance != "yunikorn-host" ||
			event.Type != v1.EventTypeNormal || event.EventTime.IsZero() {
			t.Errorf("the event is %v", event)
		}
		if len(p.looks) != 0 {
			t.Errorf("it was asked at %v why it waits", p.looks)
		}
	})
}

// The shim may hold, while it reports an event, a lock that the question for a pod needs: no lock is held meanwhile.
func TestEventsAreTakenWhileTheShimIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		pod, questions := aPod("pod"), 0
		p.asked = func() {
			questions++
			if !p.Recorder.mu.TryLock() {
				t.Error("Eventf would wait for the shim")
				return
			}
			p.Recorder.mu.Unlock()
			p.bound(pod)
		}
		p.queued(pod)
		time.Sleep(time.Minute)
		if notes := p.notes(); questions == 0 || len(notes) != 1 {
			t.Errorf("after %d questions posted was %v", questions, notes)
		}
	})
}

// A pod that waits is said why after some seconds, and again only for another reason.
func TestWhyAPodWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		pod := aPod("pod")
		p.reason = Reason{"QUEUE_MAX_EXCEEDED", "QUEUE_MAX_EXCEEDED: root.a is full"}
		p.queued(pod)
		time.Sleep(4 * time.Second)
		expect(t, p.notes())
		time.Sleep(2 * time.Second)
		expect(t, p.notes(), "FailedScheduling QUEUE_MAX_EXCEEDED: root.a is full")
		time.Sleep(time.Hour)
		expect(t, p.notes(), "FailedScheduling QUEUE_MAX_EXCEEDED: root.a is full")
		if count := len(p.looks); count < 10 || count > 20 {
			t.Errorf("it was asked %d times in an hour", count)
		}
		p.mu.Lock()
		p.reason = Reason{"NO_NODE_FITS", "NO_NODE_FITS: no node"}
		p.mu.Unlock()
		time.Sleep(lastLook)
		expect(t, p.notes(), "FailedScheduling NO_NODE_FITS: no node", "FailedScheduling QUEUE_MAX_EXCEEDED: root.a is full")
		p.bound(pod)
		before := len(p.looks)
		time.Sleep(time.Hour)
		if len(p.looks) != before || len(p.notes()) != 3 {
			t.Errorf("after it was bound it is asked about, or not told: %v", p.notes())
		}
	})
}

// A pod that the shim has to place no more is forgotten, as not every end is told; one that the server does not know,
// as for one that scheduling gates hold, has the shim's own reason.
func TestPodsThatWaitNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		p.unsure = status.Error(codes.NotFound, "no such ask")
		gated := aPod("gated")
		p.normal(gated, "Scheduling", "Scheduling", "waiting for scheduling gates")
		p.queued(aPod("gone"))
		p.gone.Store(types.UID("gone"), true)
		time.Sleep(time.Hour)
		expect(t, p.notes(), "FailedScheduling waiting for scheduling gates")
		p.Recorder.mu.Lock()
		defer p.Recorder.mu.Unlock()
		if len(p.going) != 1 || p.going["gated"] == nil {
			t.Errorf("known are %v", p.going)
		}
	})
}

// Without an answer the shim's own reason is told, once.
func TestWhyWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		p.unsure = errors.New("no server")
		pod := aPod("pod")
		p.queued(pod)
		p.normal(pod, "PodUnschedulable", "PodUnschedulable", "it waits for resources")
		time.Sleep(time.Minute)
		expect(t, p.notes(), "FailedScheduling it waits for resources")
	})
}

// There are at most five looks a second, however many pods wait.
func TestLooksArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		for i := range 1000 {
			p.queued(aPod(time.Duration(i).String()))
		}
		time.Sleep(patience + 10*time.Second)
		synctest.Wait()
		if count := len(p.looks); count < 40 || count > 51 {
			t.Errorf("there were %d looks in 10 s", count)
		}
	})
}

// What is no step of a pod's way is posted as it is, and once if it is said again and again.
func TestOtherEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		p.Eventf(node, nil, v1.EventTypeNormal, "NodeAccepted", "NodeAccepted", "node is accepted")
		for range 100 {
			p.Eventf(aPod("pod"), nil, v1.EventTypeWarning, "FailedScheduling", "FailedScheduling", "no claim %q", "data")
			p.normal(aPod("victim"), "Informational", "Informational", "Preempted by 100% of app")
			time.Sleep(time.Second)
		}
		expect(t, p.notes(), `FailedScheduling no claim "data"`, "Informational Preempted by 100% of app",
			"NodeAccepted node is accepted")
		time.Sleep(sameTime)
		p.Eventf(aPod("pod"), nil, v1.EventTypeWarning, "FailedScheduling", "FailedScheduling", "no claim %q", "data")
		if len(p.notes()) != 4 {
			t.Errorf("after some minutes it is not said again: %v", p.notes())
		}
	})
}

// No event is posted while binds wait, and all of them afterwards, but for those that there is no room for.
func TestBindsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		p.busy = make(chan struct{})
		for range backlog + posters + 100 {
			p.poster.put(p.event(v1.ObjectReference{Name: "pod"}, v1.EventTypeNormal, "Scheduled", "Binding", "bound"))
			synctest.Wait()
		}
		if p.tries != 0 {
			t.Errorf("%d events were posted before binds", p.tries)
		}
		close(p.busy)
		if got := len(p.notes()); got != backlog+posters {
			t.Errorf("%d events were posted afterwards", got)
		}
	})
}

// An API server that does not take events is left alone for longer and longer, and what it did not take is given up.
func TestSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		p.fails = errors.New("504")
		for i := range 1000 {
			p.bound(aPod(time.Duration(i).String()))
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if p.tries > 80 {
			t.Errorf("there were %d tries in five minutes", p.tries)
		}
		p.mu.Lock()
		p.fails = nil
		p.mu.Unlock()
		time.Sleep(2 * lastPause)
		if got, all := len(p.notes()), p.tries; got == 0 || all != 1000 {
			t.Errorf("%d of %d were posted once it took them", got, all)
		}
	})
}

// What the API server refuses of one event is given up, and the next one is posted at once; a right that is missing, or
// a token that has expired, makes a pause.
func TestRefusedEvents(t *testing.T) {
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "pod", errors.New("the namespace ends"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "pod", errors.New("no right"))
	for refusal, most := range map[error]int{ending: 100, forbidden: posters, apierrors.NewUnauthorized("expired"): posters} {
		synctest.Test(t, func(t *testing.T) {
			p := record(t)
			p.fails = refusal
			for i := range 100 {
				p.bound(aPod(time.Duration(i).String()))
			}
			time.Sleep(firstPause / 2)
			synctest.Wait()
			if p.tries != most {
				t.Errorf("with %v there were %d tries, not %d", refusal, p.tries, most)
			}
		})
	}
}

// Pods of which there are too many are told of nevertheless once they are bound.
func TestTooManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := record(t)
		p.reason = Reason{}
		for i := range pods + 1 {
			p.queued(aPod(time.Duration(i).String()))
		}
		if len(p.going) != pods {
			t.Errorf("%d pods are known", len(p.going))
		}
		last := aPod(time.Duration(pods).String())
		p.normal(last, "PodUnschedulable", "PodUnschedulable", "it waits for resources")
		p.bound(last)
		expect(t, p.notes(), "PodUnschedulable it waits for resources", "Scheduled Pod is successfully bound to node n")
	})
}
