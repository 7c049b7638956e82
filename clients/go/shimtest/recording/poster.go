package recording

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// backlog is the maximum number of waiting events.
	backlog = 10_000
	// posters is the number of concurrent posts.
	posters = 4
	// postTime is the timeout of a post.
	postTime = 5 * time.Second
	// firstPause and lastPause are the shortest and the longest pause after a failed post.
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// sameTime is the time for which an equal event is not posted again, and sameEvents the number of events that are
	// remembered for this.
	sameTime   = 5 * time.Minute
	sameEvents = 10_000
	// logInterval is the minimum time between two log messages about dropped events.
	logInterval = time.Minute
	// longestNote is the API's limit of a note, in bytes.
	longestNote = 1024
)

// poster posts events when no calls with precedence are running.
type poster struct {
	post    func(context.Context, *eventsv1.Event) error
	settle  func(ctx context.Context, since time.Time)
	waiting chan *eventsv1.Event

	mu      sync.Mutex
	same    map[said]time.Time
	given   int // number of events dropped since the last log message
	logged  time.Time
	failure error // reason of the last drop
}

// said identifies equal events: their object, reason and note.
type said struct {
	uid          types.UID
	name         string
	reason, note string
}

func newPoster(post func(context.Context, *eventsv1.Event) error, settle func(ctx context.Context, since time.Time)) *poster {
	return &poster{post: post, settle: settle, waiting: make(chan *eventsv1.Event, backlog), same: map[said]time.Time{}}
}

// put queues an event, or drops it if too many wait.
func (p *poster) put(event *eventsv1.Event) {
	select {
	case p.waiting <- event:
	default:
		p.giveUp(fmt.Errorf("%d events wait already", backlog))
	}
}

// putOnce queues an event unless an equal one was queued within sameTime.
func (p *poster) putOnce(event *eventsv1.Event) {
	key := said{event.Regarding.UID, event.Regarding.Name, event.Reason, event.Note}
	now := event.EventTime.Time
	p.mu.Lock()
	before, known := p.same[key]
	if known && now.Sub(before) < sameTime {
		p.mu.Unlock()
		return
	}
	if len(p.same) >= sameEvents {
		clear(p.same)
	}
	p.same[key] = now
	p.mu.Unlock()
	p.put(event)
}

// run posts until the context ends.
func (p *poster) run(ctx context.Context) {
	var all sync.WaitGroup
	for range posters {
		all.Go(func() { p.work(ctx) })
	}
	all.Wait()
}

func (p *poster) work(ctx context.Context) {
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-p.waiting:
			p.settle(ctx, event.EventTime.Time)
			within, done := context.WithTimeout(ctx, postTime)
			err := p.post(within, event)
			done()
			if err == nil {
				pause = firstPause
				continue
			}
			p.giveUp(err)
			if ofOneEvent(err) {
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// ofOneEvent returns whether an error is about the event itself, so that the next event may be accepted.
func ofOneEvent(err error) bool {
	return errors.IsNotFound(err) || errors.IsInvalid(err) || errors.HasStatusCause(err, v1.NamespaceTerminatingCause)
}

// giveUp counts a dropped event.
func (p *poster) giveUp(failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given++
	p.failure = failure
	if time.Since(p.logged) < logInterval {
		return
	}
	slog.Warn("events were given up", "events", p.given, "error", p.failure)
	p.given, p.logged = 0, time.Now()
}

// event returns an event with the present time.
func (r *Recorder) event(about v1.ObjectReference, kind, reason, action, note string) *eventsv1.Event {
	now := time.Now()
	if len(note) > longestNote {
		note = strings.ToValidUTF8(note[:longestNote], "")
	}
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano()), Namespace: namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: r.options.Controller,
		ReportingInstance:   r.options.Instance,
		Action:              action,
		Reason:              reason,
		Regarding:           about,
		Note:                note,
		Type:                kind,
	}
}
