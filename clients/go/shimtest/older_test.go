package shimtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
)

// servesOlder is the variable with which this program is a server of the older core instead of a test.
const servesOlder = "SHIMTEST_SERVES_OLDER_CORE"

// older is the in-process core behind gRPC, in a process of its own: this program, run once more.
type older struct {
	process *exec.Cmd
	address string
}

// startOlder starts the server. It ends with the test, and with this process, which holds its input open.
func startOlder(t testing.TB) wired {
	t.Helper()
	o := &older{process: exec.Command(os.Args[0])}
	o.process.Env = append(os.Environ(), servesOlder+"=1")
	o.process.Stderr = os.Stderr
	input, err := o.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = o.process.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the server of the older core does not listen: ", err)
	}
	o.address = strings.TrimSpace(line)
	return o
}

func (o *older) target() string { return o.address }

func (o *older) pid() int { return o.process.Process.Pid }

// serveOlder serves the in-process core until the input ends. The first line of the output is the address.
func serveOlder() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	si.RegisterSchedulerServer(server, &olderService{
		core: entrypoint.StartAllServicesWithParams(false, false).RMProxy,
		toRM: olderCallback{
			newOutbox[*si.AllocationResponse](), newOutbox[*si.ApplicationResponse](), newOutbox[*si.NodeResponse](),
		},
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println(listener.Addr())
	return server.Serve(listener)
}

// outbox keeps what the core says until the stream takes it, in order. The core never waits for the stream.
type outbox[T any] struct {
	mu      sync.Mutex
	waiting []T
	filled  chan struct{}
}

func newOutbox[T any]() *outbox[T] { return &outbox[T]{filled: make(chan struct{}, 1)} }

func (o *outbox[T]) put(one T) error {
	o.mu.Lock()
	o.waiting = append(o.waiting, one)
	o.mu.Unlock()
	select {
	case o.filled <- struct{}{}:
	default:
	}
	return nil
}

func (o *outbox[T]) take() []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.waiting
	o.waiting = nil
	return all
}

// olderCallback is the RM as the core sees it: all of its nodes will do for all asks.
type olderCallback struct {
	allocations  *outbox[*si.AllocationResponse]
	applications *outbox[*si.ApplicationResponse]
	nodes        *outbox[*si.NodeResponse]
}

func (c olderCallback) UpdateAllocation(response *si.AllocationResponse) error {
	return c.allocations.put(response)
}

func (c olderCallback) UpdateApplication(response *si.ApplicationResponse) error {
	return c.applications.put(response)
}

func (c olderCallback) UpdateNode(response *si.NodeResponse) error { return c.nodes.put(response) }

func (olderCallback) Predicates(*si.PredicatesArgs) error { return nil }

func (olderCallback) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return &si.PreemptionPredicatesResponse{Success: true}
}

func (olderCallback) SendEvent([]*si.EventRecord) {}

func (olderCallback) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}

// olderService passes what one RM says to the core, and what the core says to the RM.
type olderService struct {
	si.UnimplementedSchedulerServer
	core api.SchedulerAPI
	toRM olderCallback
}

func (s *olderService) RegisterResourceManager(
	_ context.Context, request *si.RegisterResourceManagerRequest,
) (*si.RegisterResourceManagerResponse, error) {
	return s.core.RegisterResourceManager(request, s.toRM)
}

func (s *olderService) UpdateAllocation(stream si.Scheduler_UpdateAllocationServer) error {
	return carry(stream, s.core.UpdateAllocation, s.toRM.allocations, func(all, one *si.AllocationResponse) {
		all.New = append(all.New, one.New...)
		all.Released = append(all.Released, one.Released...)
		all.RejectedAllocations = append(all.RejectedAllocations, one.RejectedAllocations...)
	})
}

func (s *olderService) UpdateApplication(stream si.Scheduler_UpdateApplicationServer) error {
	return carry(stream, s.core.UpdateApplication, s.toRM.applications, func(all, one *si.ApplicationResponse) {
		all.Accepted = append(all.Accepted, one.Accepted...)
		all.Rejected = append(all.Rejected, one.Rejected...)
		all.Updated = append(all.Updated, one.Updated...)
	})
}

func (s *olderService) UpdateNode(stream si.Scheduler_UpdateNodeServer) error {
	return carry(stream, s.core.UpdateNode, s.toRM.nodes, func(all, one *si.NodeResponse) {
		all.Accepted = append(all.Accepted, one.Accepted...)
		all.Rejected = append(all.Rejected, one.Rejected...)
	})
}

// duplex is a stream of either side.
type duplex[Out, In any] interface {
	Send(Out) error
	Recv() (In, error)
}

// carry serves a stream until the RM ends it. Responses that wait for one another's writing are joined.
func carry[In, Out any](stream duplex[Out, In], pass func(In) error, box *outbox[Out], join func(all, one Out)) error {
	ended := make(chan error, 1)
	go func() {
		for {
			request, err := stream.Recv()
			if err == nil {
				err = pass(request)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-ended:
			return err
		case <-box.filled:
		}
		all := box.take()
		if len(all) == 0 {
			continue
		}
		for _, one := range all[1:] {
			join(all[0], one)
		}
		if err := stream.Send(all[0]); err != nil {
			return err
		}
	}
}
