package main

import (
	"net/http"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// figures has the results of a load. Latencies are from the creation of a pod to its binding, both as observed by
// this process: in the answer to its own request, or in its watch if that is earlier.
type figures struct {
	Pods     int `json:"pods"`
	Created  int `json:"created"`
	NotBound int `json:"not_bound"`
	// CreatedSeconds and BoundSeconds are the times from the start until the last pod was created or bound.
	CreatedSeconds float64 `json:"created_seconds"`
	BoundSeconds   float64 `json:"bound_seconds"`
	P50            float64 `json:"latency_p50_ms"`
	P99            float64 `json:"latency_p99_ms"`
	Max            float64 `json:"latency_max_ms"`
	// CPU is the CPU time of this process, in seconds.
	CPU float64 `json:"load_cpu_seconds"`
	// Calls has the number of requests of this process, by verb and resource as in the API server's metrics.
	Calls map[string]int `json:"calls"`
}

// times has the times of a pod; zero for an event that has not occurred.
type times struct{ created, bound time.Time }

// ledger has the times of all pods by name.
type ledger struct {
	start time.Time

	lock   sync.Mutex
	pods   map[string]times
	bounds int
}

func newLedger(start time.Time) *ledger {
	return &ledger{start: start, pods: map[string]times{}}
}

// created records the creation of a pod; only the first time counts.
func (l *ledger) created(name string, now time.Time) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if _, known := l.pods[name]; !known {
		l.pods[name] = times{created: now}
	}
}

// changed records a watch event of a pod; it returns true if the pod is bound for the first time.
func (l *ledger) changed(pod *corev1.Pod, now time.Time) bool {
	l.created(pod.Name, now)
	if pod.Spec.NodeName == "" {
		return false
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	known := l.pods[pod.Name]
	if !known.bound.IsZero() {
		return false
	}
	known.bound = now
	l.pods[pod.Name] = known
	l.bounds++
	return true
}

func (l *ledger) boundPods() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.bounds
}

// figures returns the figures of a load of so many pods.
func (l *ledger) figures(wanted int) figures {
	l.lock.Lock()
	defer l.lock.Unlock()
	var waits []time.Duration
	var created, bound time.Time
	for _, pod := range l.pods {
		created = later(created, pod.created)
		if !pod.bound.IsZero() {
			bound = later(bound, pod.bound)
			waits = append(waits, pod.bound.Sub(pod.created))
		}
	}
	slices.Sort(waits)
	return figures{
		Pods:           wanted,
		Created:        len(l.pods),
		NotBound:       wanted - len(waits),
		CreatedSeconds: l.until(created),
		BoundSeconds:   l.until(bound),
		P50:            percentile(waits, 50),
		P99:            percentile(waits, 99),
		Max:            percentile(waits, 100),
	}
}

func (l *ledger) until(end time.Time) float64 {
	if end.IsZero() {
		return 0
	}
	return end.Sub(l.start).Seconds()
}

func later(one, other time.Time) time.Time {
	if other.After(one) {
		return other
	}
	return one
}

// percentile returns a percentile of sorted waits in milliseconds: the least wait that so many percent do not exceed.
func percentile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := (len(sorted)*percent + 99) / 100
	return sorted[max(place, 1)-1].Seconds() * 1000
}

// calls counts requests.
type calls struct {
	lock   sync.Mutex
	counts map[string]int
}

// over returns a round tripper that counts requests and passes them to next.
func (c *calls) over(next http.RoundTripper) http.RoundTripper {
	return counting{c, next}
}

func (c *calls) all() map[string]int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.counts
}

type counting struct {
	calls *calls
	next  http.RoundTripper
}

// RoundTrip counts the request, and passes it to the next round tripper.
func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	verb := request.Method
	if request.URL.Query().Has("watch") {
		verb = "WATCH"
	}
	// No path here has the name of an object, so its last part is the resource.
	name := verb + " " + path.Base(request.URL.Path)
	c.calls.lock.Lock()
	if c.calls.counts == nil {
		c.calls.counts = map[string]int{}
	}
	c.calls.counts[name]++
	c.calls.lock.Unlock()
	return c.next.RoundTrip(request)
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
