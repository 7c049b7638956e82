// Package recording posts Kubernetes events of the shim behind its binds, and fewer of them: one for a pod on its way
// to a node, with what the others would say, and one for each reason for which it waits.
package recording

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"

	"github.com/apache/yunikorn-k8shim/pkg/common/utils"

	"licorne.dev/clients/go/shimtest/due"
)

const (
	// pods is how many pods on their way are known at a time. Of more the event says less.
	pods = 20_000
	// patience is how long a pod waits before it is said why, and firstLook and lastLook how long afterwards it
	// is looked whether the reason is another one.
	patience  = 5 * time.Second
	firstLook = 10 * time.Second
	lastLook  = 5 * time.Minute
	// lookPause is the least time between two looks, so that there are at most five a second.
	lookPause = 200 * time.Millisecond
)

// Options are what a recorder is made with.
type Options struct {
	// Post sends an event to the API server.
	Post func(context.Context, *eventsv1.Event) error
	// Settle waits until what goes before events has been done, or an event of that time has waited for long.
	Settle func(ctx context.Context, since time.Time)
	// Waits says whether a pod is still to be placed: the shim does not tell all ends. Nil leaves it at what it tells.
	Waits func(application, key string) bool
	// Why asks for what a pod waits. Nil leaves it at what the shim says.
	Why func(ctx context.Context, application, key string) (Reason, error)
	// Controller and Instance are who reports.
	Controller, Instance string
}

// Reason is why a pod waits.
type Reason struct {
	// Code is stable, such as QUEUE_MAX_EXCEEDED; empty if the pod does not wait.
	Code string
	// Text is one sentence.
	Text string
}

// Recorder records events of the shim. Its memory is bounded: what it cannot keep is counted and given up.
type Recorder struct {
	options Options
	poster  *poster
	waits   *due.Work[types.UID]

	mu    sync.Mutex
	going map[types.UID]*way
}

// way is that of a pod to a node.
type way struct {
	pod         v1.ObjectReference
	application string
	queued      time.Time
	assigned    string // what the shim says once it is on a node
	group       string // what the shim says of its task group
	waits       string // what the shim says of its waiting
	told        string // the code of the reason that was posted last
	pause       time.Duration
}

var _ events.EventRecorder = (*Recorder)(nil)

// New makes a recorder, which posts while it runs.
func New(options Options) *Recorder {
	return &Recorder{
		options: options,
		poster:  newPoster(options.Post, options.Settle),
		waits:   due.New[types.UID](),
		going:   map[types.UID]*way{},
	}
}

// Run posts events until the context ends.
func (r *Recorder) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { r.poster.run(ctx) })
	both.Go(func() { r.waits.Run(ctx, func(uid types.UID) { r.look(ctx, uid) }) })
	both.Wait()
}

// Eventf takes an event of the shim. It never waits.
func (r *Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about, err := reference.GetReference(scheme.Scheme, regarding)
	if err != nil {
		return
	}
	if len(args) > 0 {
		note = fmt.Sprintf(note, args...)
	}
	if pod, isPod := regarding.(*v1.Pod); isPod && kind == v1.EventTypeNormal && r.joins(pod, *about, reason, action, note) {
		return
	}
	event := r.event(*about, kind, reason, action, note)
	if related != nil {
		event.Related, _ = reference.GetReference(scheme.Scheme, related)
	}
	r.poster.putOnce(event)
}

// joins takes an event of a pod on its way, and says whether it was one.
func (r *Recorder) joins(pod *v1.Pod, about v1.ObjectReference, reason, action, note string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.going[pod.UID]
	switch {
	case reason == "Scheduling":
		if known == nil {
			known = r.begin(pod, about)
		}
		if known != nil {
			known.waits, known.told = note, ""
		}
	case reason == "GangScheduling" && action == "TaskGroupMatch":
		if known != nil {
			known.group = note
		}
	case reason == "PodUnschedulable":
		if known == nil {
			return false
		}
		known.waits = note
	case reason == "Scheduled":
		if known != nil {
			known.assigned = note
		}
	case reason == "PodBindSuccessful":
		r.poster.put(r.event(about, v1.EventTypeNormal, "Scheduled", "Binding", known.bound(note)))
		r.end(pod.UID)
	case reason == "TaskCompleted":
		// The phase of the pod says so, or it is gone.
		r.end(pod.UID)
	default:
		return false
	}
	return true
}

// begin knows a pod from now on, unless there are too many. The lock is held.
func (r *Recorder) begin(pod *v1.Pod, about v1.ObjectReference) *way {
	if len(r.going) >= pods {
		return nil
	}
	begun := &way{
		pod: about, application: utils.GetApplicationIDFromPod(pod), queued: time.Now(), pause: firstLook,
	}
	r.going[pod.UID] = begun
	r.waits.Put(pod.UID, begun.queued.Add(patience))
	return begun
}

// end forgets a pod. The lock is held.
func (r *Recorder) end(uid types.UID) {
	delete(r.going, uid)
	r.waits.Drop(uid)
}

// bound is what there is to say of a pod at its end, besides the last note of the shim.
func (w *way) bound(note string) string {
	if w == nil || w.assigned == "" {
		return note
	}
	text := fmt.Sprintf("%s, bound %v after it was queued", w.assigned, time.Since(w.queued).Round(time.Millisecond))
	if w.group != "" {
		text += ". " + w.group
	}
	return text
}

// look says why a pod waits, if it is another reason than the last time.
func (r *Recorder) look(ctx context.Context, uid types.UID) {
	r.mu.Lock()
	known := r.going[uid]
	if known == nil {
		r.mu.Unlock()
		return
	}
	application := known.application
	reason := Reason{Code: known.waits, Text: known.waits}
	r.mu.Unlock()
	// The shim is asked without the lock: it calls Eventf with locks of its own.
	if r.options.Waits != nil && !r.options.Waits(application, string(uid)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.going[uid] == known {
			r.end(uid)
		}
		return
	}
	if r.options.Why != nil {
		if found, err := r.options.Why(ctx, application, string(uid)); err == nil {
			reason = found
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookPause):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known = r.going[uid]; known == nil {
		return
	}
	if reason.Code != "" && reason.Code != known.told {
		known.told = reason.Code
		r.poster.put(r.event(known.pod, v1.EventTypeWarning, "FailedScheduling", "Scheduling", reason.Text))
	}
	r.waits.Put(uid, time.Now().Add(known.pause))
	known.pause = min(2*known.pause, lastLook)
}
