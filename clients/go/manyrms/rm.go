package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	application = "app"
	mebibyte    = 1 << 20
	// roomy is an amount above the total of all asks of an RM.
	roomy = 1 << 50
)

// sizes has the resources of asks, which are used in turn.
var sizes = []*si.Resource{amounts(100, 128*mebibyte), amounts(200, 512*mebibyte)}

func amounts(millis, memory int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: millis}, "memory": {Value: memory}}}
}

// rm is an RM that has joined.
type rm struct {
	id          string
	allocations si.Scheduler_UpdateAllocationClient
	number      int // number of the next ask
	failed      chan error

	mu      sync.Mutex // guards the fields below, and sending
	sent    map[string]time.Time
	waits   []time.Duration
	missing int
	done    chan struct{} // closed when nothing is missing any more
}

// newRM registers an RM, and waits until its nodes and its application are accepted.
func newRM(ctx context.Context, target, id, config string, nodes int) (*rm, error) {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	stub := si.NewSchedulerClient(connection)
	if _, err := stub.RegisterResourceManager(ctx, &si.RegisterResourceManagerRequest{
		RmID: id, Version: "bench", Config: config,
	}); err != nil {
		return nil, err
	}
	if err := addNodes(ctx, stub, id, nodes); err != nil {
		return nil, err
	}
	if err := addApplication(ctx, stub, id); err != nil {
		return nil, err
	}
	allocations, err := stub.UpdateAllocation(ctx)
	if err != nil {
		return nil, err
	}
	r := &rm{id: id, allocations: allocations, sent: map[string]time.Time{}, failed: make(chan error, 1)}
	// The first message names the RM of the stream.
	if err := allocations.Send(&si.AllocationRequest{RmID: id}); err != nil {
		return nil, err
	}
	go r.read()
	return r, nil
}

func addNodes(ctx context.Context, stub si.SchedulerClient, id string, count int) error {
	stream, err := stub.UpdateNode(ctx)
	if err != nil {
		return err
	}
	request := &si.NodeRequest{RmID: id}
	for number := range count {
		name := fmt.Sprintf("node-%05d", number)
		request.Nodes = append(request.Nodes, &si.NodeInfo{
			NodeID: name, Action: si.NodeInfo_CREATE, Attributes: map[string]string{"si/hostname": name},
			SchedulableResource: amounts(roomy, roomy),
		})
	}
	if err := stream.Send(request); err != nil {
		return err
	}
	for missing := count; missing > 0; {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if len(response.Rejected) > 0 {
			return fmt.Errorf("rejected: %v", response.Rejected[0])
		}
		missing -= len(response.Accepted)
	}
	return nil
}

// addApplication adds the application, and reads its changes of state in the background.
func addApplication(ctx context.Context, stub si.SchedulerClient, id string) error {
	stream, err := stub.UpdateApplication(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&si.ApplicationRequest{RmID: id, New: []*si.AddApplicationRequest{{
		ApplicationID: application, QueueName: "root.q0000",
		Ugi: &si.UserGroupInformation{User: "user", Groups: []string{"user"}},
	}}}); err != nil {
		return err
	}
	response, err := stream.Recv()
	if err != nil {
		return err
	}
	if len(response.Rejected) > 0 {
		return fmt.Errorf("rejected: %v", response.Rejected[0])
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	return nil
}

// ask sends asks at a steady rate from a time on, without waiting for allocations in between. It returns the
// wait of each ask after all are allocated.
func (r *rm) ask(start time.Time, count int, rate float64) ([]time.Duration, error) {
	done := make(chan struct{})
	r.mu.Lock()
	r.waits, r.missing, r.done = nil, count, done
	r.mu.Unlock()
	for number := range count {
		time.Sleep(time.Until(start.Add(time.Duration(float64(number) / rate * float64(time.Second)))))
		key := fmt.Sprintf("%s-%06d", r.id, r.number)
		request := &si.AllocationRequest{RmID: r.id, Allocations: []*si.Allocation{{
			AllocationKey: key, ApplicationID: application, ResourcePerAlloc: sizes[r.number%len(sizes)],
		}}}
		r.number++
		r.mu.Lock()
		r.sent[key] = time.Now()
		err := r.allocations.Send(request)
		r.mu.Unlock()
		if err != nil {
			// The reader of the stream has the reason.
			return nil, <-r.failed
		}
	}
	select {
	case <-done:
		return r.waits, nil
	case err := <-r.failed:
		return nil, err
	}
}

// read reads allocations and releases each at once, until the stream ends.
func (r *rm) read() {
	for {
		response, err := r.allocations.Recv()
		if err == nil && len(response.RejectedAllocations) > 0 {
			err = fmt.Errorf("rejected: %v", response.RejectedAllocations[0])
		}
		if err == nil {
			err = r.took(response.New)
		}
		if err != nil {
			r.failed <- err
			return
		}
	}
}

func (r *rm) took(placed []*si.Allocation) error {
	if len(placed) == 0 {
		return nil
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var releases []*si.AllocationRelease
	for _, one := range placed {
		r.waits = append(r.waits, now.Sub(r.sent[one.AllocationKey]))
		delete(r.sent, one.AllocationKey)
		releases = append(releases, &si.AllocationRelease{
			ApplicationID: one.ApplicationID, AllocationKey: one.AllocationKey, PartitionName: one.PartitionName,
			TerminationType: si.TerminationType_STOPPED_BY_RM,
		})
	}
	err := r.allocations.Send(&si.AllocationRequest{
		RmID: r.id, Releases: &si.AllocationReleasesRequest{AllocationsToRelease: releases},
	})
	if r.missing -= len(placed); r.missing == 0 {
		close(r.done)
	}
	return err
}
