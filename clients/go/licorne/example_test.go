package licorne_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// A resource manager with one node and one ask, until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	const queues = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: batch}]}]}]"
	config := licorne.Config{Target: "localhost:7070", RMID: "rm1", Queues: queues}
	rm, err := licorne.New(config, licorne.Handlers{
		Allocations: func(response *si.AllocationResponse) {
			for _, allocation := range response.GetNew() {
				log.Printf("start %s on %s", allocation.GetAllocationKey(), allocation.GetNodeID())
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	small := &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: 500}}}
	large := &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: 4000}}}
	if err := rm.UpdateNodes(&si.NodeRequest{Nodes: []*si.NodeInfo{
		{NodeID: "n1", Action: si.NodeInfo_CREATE, SchedulableResource: large},
	}}); err != nil {
		log.Fatal(err)
	}
	if err := rm.UpdateApplications(&si.ApplicationRequest{New: []*si.AddApplicationRequest{
		{ApplicationID: "a1", QueueName: "root.batch", Ugi: &si.UserGroupInformation{User: "ann"}},
	}}); err != nil {
		log.Fatal(err)
	}
	if err := rm.UpdateAllocations(&si.AllocationRequest{Allocations: []*si.Allocation{
		{AllocationKey: "a1-0", ApplicationID: "a1", ResourcePerAlloc: small},
	}}); err != nil {
		log.Fatal(err)
	}
	if err := rm.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// An RM whose asks need a GPU.
func ExampleHandlers_check() {
	var config licorne.Config
	var handlers licorne.Handlers
	config.Predicates = &licorne.PredicateOptions{Deadline: time.Second}
	handlers.Check = func(check *licornev1.PredicateCheck) map[string]string {
		refused := map[string]string{}
		for _, node := range check.GetNodeIds() {
			if !strings.HasPrefix(node, "gpu-") {
				refused[node] = "no gpu"
			}
		}
		return refused
	}
}

// An RM that saves the work of an allocation before it is preempted.
func ExampleHandlers() {
	var handlers licorne.Handlers
	save := func(key string, deadline time.Time) { log.Printf("save %s until %s", key, deadline) }
	handlers.PreemptionNotices = func(told *licornev1.PreemptionNotices) {
		for _, notice := range told.GetNotices() {
			go save(notice.GetAllocationKey(), time.Unix(0, notice.GetDeadline()))
		}
	}
}
