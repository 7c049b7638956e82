// Package recording posts the Kubernetes events of the shim after its binds, and joins them: one event for a pod until
// it is bound, and one for each reason why it waits.
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
	// pods is the maximum number of unbound pods that are tracked. The events of further pods have less information.
	pods = 20_000
	// patience is the wait of a pod after which the reason is posted; firstLook and lastLook are the shortest and the
	// longest time until the reason is checked again.
	patience  = 5 * time.Second
	firstLook = 10 * time.Second
	lastLook  = 5 * time.Minute
	// lookPause is the minimum time between two checks of reasons, so that there are at most five per second.
	lookPause = 200 * time.Millisecond
)

// Options configures a Recorder.
type Options struct {
	// Post sends an event to the API server.
	Post func(context.Context, *eventsv1.Event) error
	// Settle waits until no calls with precedence are running, or until an event from the time since has waited long.
	Settle func(ctx context.Context, since time.Time)
	// Waits returns whether a pod has yet to be placed, because the shim does not report every end. Nil for none.
	Waits func(application, key string) bool
	// Why returns the reason why a pod waits. Nil to use only the shim's reasons.
	Why func(ctx context.Context, application, key string) (Reason, error)
	// Controller and Instance identify the reporter of events.
	Controller, Instance string
}

// Reason is the reason why a pod waits.
type Reason struct {
	// Code is stable, such as QUEUE_MAX_EXCEEDED; empty if the pod does not wait.
	Code string
	// Text is one sentence.
	Text string
}

// Recorder records events of the shim. Its memory is bounded: further events are counted and dropped.
type Recorder struct {
	options Options
	poster  *poster
	waits   *due.Work[types.UID]

	mu    sync.Mutex
	going map[types.UID]*way
}

// way is the state of an unbound pod.
type way struct {
	pod         v1.ObjectReference
	application string
	queued      time.Time
	assigned    string // the shim's note about its node
	group       string // the shim's note about its task group
	waits       string // the shim's note about why it waits
	told        string // the code of the last posted reason
	pause       time.Duration
}

var _ events.EventRecorder = (*Recorder)(nil)

// New returns a recorder, which posts events during Run.
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

// Eventf records an event of the shim. It never blocks.
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

// joins records an event of an unbound pod; it returns false for any other event.
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
		// The pod has ended, or no longer exists.
		r.end(pod.UID)
	default:
		return false
	}
	return true
}

// begin tracks a pod, unless there are too many. The lock is held.
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

// end stops tracking a pod. The lock is held.
func (r *Recorder) end(uid types.UID) {
	delete(r.going, uid)
	r.waits.Drop(uid)
}

// bound returns the note for a bound pod: its node, time in the queue and task group, or if unknown the shim's note.
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

// look posts the reason why a pod waits, if it differs from the last one.
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
	// The shim is called without the lock, because it calls Eventf with its own locks.
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
