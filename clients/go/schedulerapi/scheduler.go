package schedulerapi

import (
	"errors"
	"fmt"
	"sync"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// ErrStopped is returned by calls after Stop.
var ErrStopped = errors.New("schedulerapi: the scheduler was stopped")

// Scheduler is the scheduler core for the shim. All methods may be called from any goroutine, and the Update
// methods also within a callback.
//
// The items of a request must not be changed after the call.
type Scheduler struct {
	options Options

	mu      sync.RWMutex
	rms     map[string]*rm
	stopped bool
}

var _ api.SchedulerAPI = (*Scheduler)(nil)

// New creates a Scheduler, which connects when an RM registers, and then waits for a server that is not
// running. The error names an option that is out of range.
func New(options Options) (*Scheduler, error) {
	s := &Scheduler{options: options.withDefaults(), rms: map[string]*rm{}}
	if s.options.RecheckInterval < 0 {
		return nil, fmt.Errorf("schedulerapi: RecheckInterval is %v, it must not be negative", options.RecheckInterval)
	}
	// A trial registration detects invalid options now.
	if _, err := newRM(s.options, &si.RegisterResourceManagerRequest{RmID: "rm", Version: "0"}, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// RegisterResourceManager waits until the server has registered the RM. It returns the server's refusal, or
// ErrStopped after Stop. If the RM is already registered, its state is dropped.
func (s *Scheduler) RegisterResourceManager(
	request *si.RegisterResourceManagerRequest, callback api.ResourceManagerCallback,
) (*si.RegisterResourceManagerResponse, error) {
	if callback == nil {
		return nil, errors.New("schedulerapi: the callback is nil")
	}
	next, err := newRM(s.options, request, callback)
	if err != nil {
		return nil, err
	}
	if err := s.replace(request.GetRmID(), next); err != nil {
		return nil, err
	}
	if err := next.ready(); err != nil {
		s.forget(request.GetRmID(), next)
		return nil, err
	}
	return &si.RegisterResourceManagerResponse{}, nil
}

// replace starts a registration, and stops an older one with the same id.
func (s *Scheduler) replace(rmID string, next *rm) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return ErrStopped
	}
	before := s.rms[rmID]
	s.rms[rmID] = next
	s.mu.Unlock()
	if before != nil {
		before.stop()
	}
	next.start()
	return nil
}

func (s *Scheduler) forget(rmID string, failed *rm) {
	s.mu.Lock()
	if s.rms[rmID] == failed {
		delete(s.rms, rmID)
	}
	s.mu.Unlock()
	failed.stop()
}

// UpdateAllocation adds asks and running allocations, and releases them. It returns when they are queued; the
// error names a field that cannot be sent.
func (s *Scheduler) UpdateAllocation(request *si.AllocationRequest) error {
	rm, err := s.find(request.GetRmID())
	if err != nil {
		return err
	}
	return rm.updateAllocation(request)
}

// UpdateApplication adds and removes applications. It waits and returns errors like UpdateAllocation.
func (s *Scheduler) UpdateApplication(request *si.ApplicationRequest) error {
	rm, err := s.find(request.GetRmID())
	if err != nil {
		return err
	}
	return rm.updateApplication(request)
}

// UpdateNode adds, changes and removes nodes. It waits and returns errors like UpdateAllocation.
func (s *Scheduler) UpdateNode(request *si.NodeRequest) error {
	rm, err := s.find(request.GetRmID())
	if err != nil {
		return err
	}
	return rm.updateNode(request)
}

// UpdateConfiguration replaces the queues and the extra configuration. It returns the server's refusal. If
// the server cannot be reached it returns nil, and sends the configuration after the next connection, before
// applications. A refusal is then only logged, and the last accepted configuration remains in force.
func (s *Scheduler) UpdateConfiguration(request *si.UpdateConfigurationRequest) error {
	rm, err := s.find(request.GetRmID())
	if err != nil {
		return err
	}
	return rm.configuration.update(request)
}

// Stop sends queued items and a goodbye, within five seconds. The server retains the state of the RMs.
func (s *Scheduler) Stop() {
	s.mu.Lock()
	s.stopped = true
	rms := s.rms
	s.rms = map[string]*rm{}
	s.mu.Unlock()
	var waiting sync.WaitGroup
	for _, rm := range rms {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			rm.stop()
		}()
	}
	waiting.Wait()
}

func (s *Scheduler) find(rmID string) (*rm, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.stopped {
		return nil, ErrStopped
	}
	found := s.rms[rmID]
	if found == nil {
		return nil, fmt.Errorf("schedulerapi: rmID %q is not registered", rmID)
	}
	return found, nil
}
