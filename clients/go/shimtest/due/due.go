// Package due runs work for keys at their times, one key after another.
package due

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Work has keys, each with the time when it is due. All methods may be called from any goroutine, and from within
// the work.
type Work[K comparable] struct {
	mu      sync.Mutex
	entries entries[K]
	places  map[K]*entry[K]
	changed chan struct{}
}

type entry[K comparable] struct {
	key   K
	at    time.Time
	index int
}

// New returns Work without keys.
func New[K comparable]() *Work[K] {
	return &Work[K]{places: map[K]*entry[K]{}, changed: make(chan struct{}, 1)}
}

// Put makes a key due at a time. If it is already due earlier, it keeps that time.
func (w *Work[K]) Put(key K, at time.Time) {
	w.mu.Lock()
	known := w.places[key]
	switch {
	case known == nil:
		known = &entry[K]{key: key, at: at}
		w.places[key] = known
		heap.Push(&w.entries, known)
	case at.Before(known.at):
		known.at = at
		heap.Fix(&w.entries, known.index)
	}
	first := known.index == 0
	w.mu.Unlock()
	if first {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// Drop removes a key.
func (w *Work[K]) Drop(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.places[key]; known != nil {
		heap.Remove(&w.entries, known.index)
		delete(w.places, key)
	}
}

// Len returns the number of keys.
func (w *Work[K]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

// Run works on due keys until the context ends. A key is removed before its work, which may put it again.
func (w *Work[K]) Run(ctx context.Context, work func(K)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		key, wait, found := w.next()
		if found && wait <= 0 {
			work(key)
			continue
		}
		var late <-chan time.Time
		if found {
			timer.Reset(wait)
			late = timer.C
		}
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-late:
		}
	}
}

// next removes and returns the first key if it is due, and otherwise returns the wait.
func (w *Work[K]) next() (key K, wait time.Duration, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.entries) == 0 {
		return key, 0, false
	}
	first := w.entries[0]
	if wait = time.Until(first.at); wait <= 0 {
		heap.Pop(&w.entries)
		delete(w.places, first.key)
	}
	return first.key, wait, true
}

// entries are a heap by time.
type entries[K comparable] []*entry[K]

func (e entries[K]) Len() int           { return len(e) }
func (e entries[K]) Less(i, j int) bool { return e[i].at.Before(e[j].at) }

func (e entries[K]) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

func (e *entries[K]) Push(one any) {
	added := one.(*entry[K])
	added.index = len(*e)
	*e = append(*e, added)
}

func (e *entries[K]) Pop() any {
	last := len(*e) - 1
	one := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return one
}
