package licorne_test

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// A resource manager with one node and one ask, until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	config := licorne.Config{Target: "localhost:7070", RMID: "rm1"}
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
