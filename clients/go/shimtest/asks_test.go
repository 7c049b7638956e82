package shimtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// askShape is so many leaves with so many applications each, which have so many asks each. A message has
// as many items as batch says.
type askShape struct {
	name                             string
	queues, apps, asks, nodes, batch int
}

// askShapes are those of the scenarios of these names in tools/licorne_tools/bench/scenarios.py.
var askShapes = []askShape{
	{"core1", 2, 1, 5000, 5000, 1},
	{"shim", 5, 80, 125, 5000, 1000},
	{"onebigapp", 1, 1, 20000, 5000, 1000},
	{"manyapps", 1, 1000, 10, 5000, 1000},
	{"tenants", 100, 10, 10, 5000, 1000},
}

const (
	// askingRM is the id of the shim, too: what its tests have left on a server is dropped.
	askingRM = "mycluster"
	askUsers = 1000
	mebibyte = 1 << 20
	// longest is how long an RM may take for all.
	longest = 5 * time.Minute
)

// wired is a core that listens, in a process of its own.
type wired interface {
	target() string
	pid() int
}

// wiredCores are the cores over gRPC, by name. Each is stopped with the test that started it.
var wiredCores = []struct {
	name  string
	start func(testing.TB) wired
}{
	{"older", startOlder},
	{"licorne", func(t testing.TB) wired { return startLicorne(t) }},
}

// Both cores place all asks over gRPC, each once.
func TestAsksOverTheWire(t *testing.T) {
	shape := askShape{"small", 2, 3, 7, 4, 5}
	for _, one := range wiredCores {
		t.Run(one.name, func(t *testing.T) {
			var wanted, placed []string
			for _, ask := range shape.allAsks() {
				wanted = append(wanted, ask.AllocationKey)
			}
			join(t, one.start(t).target(), shape).place(func(allocation *si.Allocation) {
				placed = append(placed, allocation.AllocationKey)
			})
			slices.Sort(wanted)
			slices.Sort(placed)
			if !slices.Equal(wanted, placed) {
				t.Fatalf("placed are %v", placed)
			}
		})
	}
}

// BenchmarkAsks measures how fast asks are placed that are sent all at once, from the first that is sent
// to the last allocation that has come, and what it costs either process. Run it with -benchtime 1x.
func BenchmarkAsks(b *testing.B) {
	for _, shape := range askShapes {
		for _, one := range wiredCores {
			b.Run(shape.name+"/"+one.name, func(b *testing.B) {
				for range b.N {
					core := one.start(b)
					rm := join(b, core.target(), shape)
					before, ownBefore, sent := usedBy(b, core), used(), time.Now()
					rm.place(func(*si.Allocation) {})
					seconds, count := time.Since(sent).Seconds(), float64(shape.count())
					b.ReportMetric(count/seconds, "asks/s")
					b.ReportMetric((used()-ownBefore)*1e6/count, "client-µs/ask")
					b.ReportMetric((usedBy(b, core)-before)*1e6/count, "server-µs/ask")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}

// asking is an RM on the streams of si.v1 whose nodes and applications are accepted, and whose asks are
// encoded.
type asking struct {
	t           testing.TB
	shape       askShape
	allocations si.Scheduler_UpdateAllocationClient
	messages    []any
}

// join registers the RM.
func join(t testing.TB, target string, shape askShape) *asking {
	t.Helper()
	connection, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	check(t, err)
	t.Cleanup(func() { connection.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	t.Cleanup(cancel)
	stub := si.NewSchedulerClient(connection)
	_, err = stub.RegisterResourceManager(ctx, &si.RegisterResourceManagerRequest{
		RmID: askingRM, Version: "bench", Config: shape.config(t), ExtraConfig: quiet,
	})
	check(t, err)
	nodes, err := stub.UpdateNode(ctx)
	check(t, err)
	exchange(t, nodes.Send, shape.nodeRequests(), nodes.Recv, shape.nodes, func(response *si.NodeResponse) int {
		refuse(t, response.Rejected)
		return len(response.Accepted)
	})
	applications, err := stub.UpdateApplication(ctx)
	check(t, err)
	count := shape.queues * shape.apps
	exchange(t, applications.Send, shape.appRequests(), applications.Recv, count, func(response *si.ApplicationResponse) int {
		refuse(t, response.Rejected)
		return len(response.Accepted)
	})
	go func() {
		for {
			if _, err := applications.Recv(); err != nil {
				return
			}
		}
	}()
	allocations, err := stub.UpdateAllocation(ctx)
	check(t, err)
	// The first message tells whose stream it is.
	check(t, allocations.Send(&si.AllocationRequest{RmID: askingRM}))
	a := &asking{t: t, shape: shape, allocations: allocations}
	for some := range slices.Chunk(shape.allAsks(), shape.batch) {
		message := &grpc.PreparedMsg{}
		check(t, message.Encode(allocations, &si.AllocationRequest{RmID: askingRM, Allocations: some}))
		a.messages = append(a.messages, message)
	}
	return a
}

// place sends all asks and reads until each has its allocation.
func (a *asking) place(each func(*si.Allocation)) {
	a.t.Helper()
	count := a.shape.count()
	exchange(a.t, a.allocations.SendMsg, a.messages, a.allocations.Recv, count, func(response *si.AllocationResponse) int {
		refuse(a.t, response.RejectedAllocations)
		for _, allocation := range response.New {
			each(allocation)
		}
		return len(response.New)
	})
}

// exchange sends all messages, and reads until as many items as are missing have come. A failure of the
// stream shows where it is read.
func exchange[Out, In any](
	t testing.TB, send func(Out) error, all []Out, receive func() (In, error), missing int, came func(In) int,
) {
	t.Helper()
	go func() {
		for _, one := range all {
			if send(one) != nil {
				return
			}
		}
	}()
	for missing > 0 {
		response, err := receive()
		check(t, err)
		missing -= came(response)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refuse[T any](t testing.TB, rejected []T) {
	t.Helper()
	if len(rejected) > 0 {
		t.Fatalf("rejected: %v", rejected[0])
	}
}

func (s askShape) count() int { return s.queues * s.apps * s.asks }

// config has leaves below root, and limits of users that count and never block.
func (s askShape) config(t testing.TB) string {
	t.Helper()
	type object map[string]any
	var leaves []object
	for queue := range s.queues {
		leaves = append(leaves, object{
			"name": fmt.Sprintf("q%04d", queue), "properties": object{"application.sort.policy": "fifo"},
		})
	}
	var users []string
	for user := range askUsers {
		users = append(users, userName(user))
	}
	root := object{"name": "root", "submitacl": "*", "queues": leaves, "limits": []object{{
		"limit": "each user", "users": users, "maxapplications": 1_000_000,
		"maxresources": object{"memory": "1Pi", "vcore": "100M"},
	}}}
	// Every JSON is YAML.
	text, err := json.Marshal(object{"partitions": []object{{"name": "default", "queues": []object{root}}}})
	check(t, err)
	return string(text)
}

func userName(number int) string { return fmt.Sprintf("user-%04d", number%askUsers) }

func amounts(millis, memory int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: millis}, "memory": {Value: memory}}}
}

// nodeRequests have nodes with more room than all asks need.
func (s askShape) nodeRequests() (requests []*si.NodeRequest) {
	var nodes []*si.NodeInfo
	for number := range s.nodes {
		name := fmt.Sprintf("node-%05d", number)
		nodes = append(nodes, &si.NodeInfo{
			NodeID: name, Action: si.NodeInfo_CREATE, Attributes: map[string]string{"si/hostname": name},
			SchedulableResource: amounts(32_000, 128*1024*mebibyte),
		})
	}
	for some := range slices.Chunk(nodes, s.batch) {
		requests = append(requests, &si.NodeRequest{RmID: askingRM, Nodes: some})
	}
	return requests
}

// eachApp gives the queue and the id of each application.
func (s askShape) eachApp(give func(queue, id string)) {
	for queue := range s.queues {
		for app := range s.apps {
			give(fmt.Sprintf("root.q%04d", queue), fmt.Sprintf("app-q%04d-%04d", queue, app))
		}
	}
}

func (s askShape) appRequests() (requests []*si.ApplicationRequest) {
	var apps []*si.AddApplicationRequest
	s.eachApp(func(queue, id string) {
		user := userName(len(apps))
		apps = append(apps, &si.AddApplicationRequest{
			ApplicationID: id, QueueName: queue, Ugi: &si.UserGroupInformation{User: user, Groups: []string{user}},
		})
	})
	for some := range slices.Chunk(apps, s.batch) {
		requests = append(requests, &si.ApplicationRequest{RmID: askingRM, New: some})
	}
	return requests
}

// allAsks are those of all applications mixed, in two sizes.
func (s askShape) allAsks() (asks []*si.Allocation) {
	sizes := []*si.Resource{amounts(100, 128*mebibyte), amounts(200, 512*mebibyte)}
	for number := range s.asks {
		s.eachApp(func(_, id string) {
			asks = append(asks, &si.Allocation{
				AllocationKey: fmt.Sprintf("%s-%06d", id, number), ApplicationID: id, ResourcePerAlloc: sizes[number%2],
			})
		})
	}
	return asks
}
