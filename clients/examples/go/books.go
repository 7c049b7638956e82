package main

import (
	"fmt"
	"sync"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const (
	rmID   = "example-go"
	count  = 1000
	queues = `partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: examples}]}]}]`
)

func vcore(value int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: value}}}
}

func nodes() []*si.NodeInfo {
	all := make([]*si.NodeInfo, 10)
	for i := range all {
		all[i] = &si.NodeInfo{NodeID: fmt.Sprintf("n%d", i), Action: si.NodeInfo_CREATE, SchedulableResource: vcore(100_000)}
	}
	return all
}

func applications() []*si.AddApplicationRequest {
	user := &si.UserGroupInformation{User: "ann"}
	return []*si.AddApplicationRequest{{ApplicationID: "a1", QueueName: "root.examples", Ugi: user}}
}

type phase int

const (
	asking phase = iota
	waiting
	releasing
	over
)

// books is what this resource manager has, and what it does next, whatever carries its messages.
type books struct {
	mu sync.Mutex
	// An ask has no node, and an allocation that runs has one. So this is all that a replay needs.
	items   map[string]*si.Allocation
	phase   phase
	restart bool
}

// newBooks has all asks. With restart nothing is released before it was replayed.
func newBooks(restart bool) *books {
	b := &books{items: map[string]*si.Allocation{}, restart: restart}
	for i := range count {
		key := fmt.Sprintf("k%d", i)
		b.items[key] = &si.Allocation{AllocationKey: key, ApplicationID: "a1", ResourcePerAlloc: vcore(1000)}
	}
	return b
}

func (b *books) all() []*si.Allocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*si.Allocation, 0, len(b.items))
	for _, item := range b.items {
		all = append(all, item)
	}
	return all
}

func (b *books) running() int {
	running := 0
	for _, item := range b.items {
		if item.GetNodeID() != "" {
			running++
		}
	}
	return running
}

func (b *books) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase == over
}

// note takes in what the server says; returns what to release then, which mostly is nothing.
func (b *books) note(response *si.AllocationResponse) []*si.AllocationRelease {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range response.GetNew() {
		b.items[one.GetAllocationKey()] = one
	}
	for _, one := range response.GetReleased() {
		delete(b.items, one.GetAllocationKey())
	}
	if b.phase == asking && b.running() == count {
		fmt.Println(count, "allocations")
		b.phase = waiting
		if !b.restart {
			return b.release()
		}
	}
	if b.phase == releasing && len(b.items) == 0 {
		fmt.Println(count, "releases")
		b.phase = over
	}
	return nil
}

// replayed is for when the server knows all of it again; returns what to release then.
func (b *books) replayed() []*si.AllocationRelease {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != waiting {
		return nil
	}
	fmt.Println("replayed", b.running(), "allocations")
	return b.release()
}

func (b *books) release() []*si.AllocationRelease {
	b.phase = releasing
	var all []*si.AllocationRelease
	for key := range b.items {
		all = append(all, &si.AllocationRelease{
			AllocationKey: key, ApplicationID: "a1", TerminationType: si.TerminationType_STOPPED_BY_RM,
		})
	}
	return all
}
