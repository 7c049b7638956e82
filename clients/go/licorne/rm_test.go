package licorne_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// rm is a resource manager under test: a running client, and the events of its handlers.
type rm struct {
	t      *testing.T
	client *licorne.Client
	cancel context.CancelFunc
	ended  chan struct{}
	err    error

	mu   sync.Mutex
	told []string
	news chan struct{}
}

// options change the usual configuration of a test.
type options func(*licorne.Config, *licorne.Handlers)

// run creates a client of a server, and runs it until the end of the test.
func run(t *testing.T, address string, change ...options) *rm {
	t.Helper()
	r := newRM(t, address, change...)
	r.start()
	return r
}

func newRM(t *testing.T, address string, change ...options) *rm {
	t.Helper()
	r := &rm{t: t, ended: make(chan struct{}), news: make(chan struct{}, 1)}
	config := licorne.Config{
		Target: address, RMID: "rm1", Instance: 1,
		Retry:  licorne.Retry{Initial: time.Millisecond, Maximum: 20 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	handlers := r.handlers()
	for _, apply := range change {
		apply(&config, &handlers)
	}
	client, err := licorne.New(config, handlers)
	if err != nil {
		t.Fatal(err)
	}
	r.client = client
	return r
}

func (r *rm) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.ended)
		r.err = r.client.Run(ctx)
	}()
	r.t.Cleanup(func() {
		expired, done := context.WithCancel(context.Background())
		done()
		_ = r.client.Close(expired, false)
		_ = r.awaitEnd()
		cancel()
	})
}

// awaitEnd waits for the end of Run and returns its error.
func (r *rm) awaitEnd() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(patience):
		r.t.Fatal("Run did not end")
		return nil
	}
}

// tell records an event of a handler.
func (r *rm) tell(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprintf(format, arguments...))
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// expect waits for exactly these events, in this order, since the last call.
func (r *rm) expect(wanted ...string) {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		told := slices.Clone(r.told)
		if len(told) >= len(wanted) {
			r.told = r.told[len(wanted):]
		}
		r.mu.Unlock()
		if len(told) >= len(wanted) {
			if got := told[:len(wanted)]; !slices.Equal(wanted, got) {
				r.t.Fatalf("the handlers were told\n  %s\nand not\n  %s", strings.Join(got, "\n  "), strings.Join(wanted, "\n  "))
			}
			return
		}
		select {
		case <-r.news:
		case <-deadline:
			r.t.Fatalf("the handlers were told only\n  %s\nand not\n  %s", strings.Join(told, "\n  "), strings.Join(wanted, "\n  "))
		}
	}
}

// handlers returns handlers that record all events except changes of the session.
func (r *rm) handlers() licorne.Handlers {
	return licorne.Handlers{
		Nodes: func(response *si.NodeResponse) {
			for _, item := range response.GetAccepted() {
				r.tell("node %s accepted", item.GetNodeID())
			}
			for _, item := range response.GetRejected() {
				r.tell("node %s rejected: %s", item.GetNodeID(), item.GetReason())
			}
		},
		Applications: func(response *si.ApplicationResponse) {
			for _, item := range response.GetAccepted() {
				r.tell("application %s accepted", item.GetApplicationID())
			}
			for _, item := range response.GetRejected() {
				r.tell("application %s rejected: %s", item.GetApplicationID(), item.GetReason())
			}
			for _, item := range response.GetUpdated() {
				r.tell("application %s is %s", item.GetApplicationID(), item.GetState())
			}
		},
		Allocations: func(response *si.AllocationResponse) {
			for _, item := range response.GetNew() {
				r.tell("%s on %s", item.GetAllocationKey(), item.GetNodeID())
			}
			for _, item := range response.GetReleased() {
				r.tell("%s released: %v", item.GetAllocationKey(), item.GetTerminationType())
			}
			for _, item := range response.GetRejectedAllocations() {
				r.tell("%s rejected: %s", item.GetAllocationKey(), item.GetReason())
			}
		},
	}
}

// sessions is a handler that records changes of the session.
func (r *rm) sessions(change licorne.SessionChange) { r.tell("session %v", change.State) }

func (r *rm) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rm) nodes(items ...*si.NodeInfo) {
	r.t.Helper()
	r.must(r.client.UpdateNodes(&si.NodeRequest{Nodes: items}))
}

func (r *rm) submit(items ...*si.AddApplicationRequest) {
	r.t.Helper()
	r.must(r.client.UpdateApplications(&si.ApplicationRequest{New: items}))
}

func (r *rm) remove(ids ...string) {
	r.t.Helper()
	request := &si.ApplicationRequest{}
	for _, id := range ids {
		request.Remove = append(request.Remove, &si.RemoveApplicationRequest{ApplicationID: id})
	}
	r.must(r.client.UpdateApplications(request))
}

func (r *rm) asks(items ...*si.Allocation) {
	r.t.Helper()
	r.must(r.client.UpdateAllocations(&si.AllocationRequest{Allocations: items}))
}

func (r *rm) release(keys ...string) {
	r.t.Helper()
	releases := &si.AllocationReleasesRequest{}
	for _, key := range keys {
		releases.AllocationsToRelease = append(releases.AllocationsToRelease, &si.AllocationRelease{
			AllocationKey: key, ApplicationID: "a1", TerminationType: si.TerminationType_STOPPED_BY_RM,
		})
	}
	r.must(r.client.UpdateAllocations(&si.AllocationRequest{Releases: releases}))
}

// ready waits until the RM is scheduled.
func (r *rm) ready() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.must(r.client.Ready(ctx))
}

func amounts(vcore int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: vcore}}}
}

func node(id string, action si.NodeInfo_ActionFromRM) *si.NodeInfo {
	info := &si.NodeInfo{NodeID: id, Action: action}
	if action == si.NodeInfo_CREATE || action == si.NodeInfo_CREATE_DRAIN {
		info.SchedulableResource = amounts(4000)
	}
	return info
}

func application(id string) *si.AddApplicationRequest {
	return &si.AddApplicationRequest{
		ApplicationID: id, QueueName: "root.q", Ugi: &si.UserGroupInformation{User: "ann"},
	}
}

func ask(key string) *si.Allocation {
	return &si.Allocation{AllocationKey: key, ApplicationID: "a1", ResourcePerAlloc: amounts(100)}
}

func allocation(key, node string) *si.Allocation {
	item := ask(key)
	item.NodeID = node
	return item
}

func acceptedNodes(ids ...string) *si.NodeResponse {
	response := &si.NodeResponse{}
	for _, id := range ids {
		response.Accepted = append(response.Accepted, &si.AcceptedNode{NodeID: id})
	}
	return response
}

func acceptedApplications(ids ...string) *si.ApplicationResponse {
	response := &si.ApplicationResponse{}
	for _, id := range ids {
		response.Accepted = append(response.Accepted, &si.AcceptedApplication{ApplicationID: id})
	}
	return response
}

func fresh(items ...*si.Allocation) *si.AllocationResponse { return &si.AllocationResponse{New: items} }

// said returns short texts of the items in requests, in their order.
func said(requests ...*licornev1.UpdateRequest) []string {
	var lines []string
	for _, request := range requests {
		for _, item := range request.GetNodes().GetNodes() {
			lines = append(lines, fmt.Sprintf("%v %s", item.GetAction(), item.GetNodeID()))
		}
		for _, item := range request.GetApplications().GetNew() {
			lines = append(lines, "submit "+item.GetApplicationID())
		}
		for _, item := range request.GetApplications().GetRemove() {
			lines = append(lines, "remove "+item.GetApplicationID())
		}
		for _, item := range request.GetAllocations().GetAllocations() {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("ask %s %s", item.GetAllocationKey(), item.GetNodeID())))
		}
		for _, item := range request.GetAllocations().GetReleases().GetAllocationsToRelease() {
			lines = append(lines, "release "+item.GetAllocationKey())
		}
		if end := request.GetReplayEnd(); end != nil {
			lines = append(lines, fmt.Sprintf("end %d %d %d", end.GetNodes(), end.GetApplications(), end.GetAllocations()))
		}
		if goodbye := request.GetGoodbye(); goodbye != nil {
			lines = append(lines, fmt.Sprintf("goodbye %v", goodbye.GetUnregister()))
		}
	}
	return lines
}

func expectSaid(t *testing.T, requests []*licornev1.UpdateRequest, wanted ...string) {
	t.Helper()
	if got := said(requests...); !slices.Equal(wanted, got) {
		t.Fatalf("the server was told\n  %s\nand not\n  %s", strings.Join(got, "\n  "), strings.Join(wanted, "\n  "))
	}
}

func nodeRequest(id string) *si.NodeRequest {
	return &si.NodeRequest{Nodes: []*si.NodeInfo{node(id, si.NodeInfo_CREATE)}}
}
