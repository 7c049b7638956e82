package main

import (
	"context"
	"fmt"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"licorne.dev/clients/go/licorne"
)

// overSession says once what there is. The client says it again whenever the server has restarted.
// With restart nothing is released before that.
func overSession(target string, restart bool) error {
	var rm *licorne.Client
	ctx, stop := context.WithCancelCause(context.Background())
	all := asks()
	release := func() {
		if err := rm.UpdateAllocations(all.releases()); err != nil {
			stop(err)
		}
	}
	rm, err := licorne.New(licorne.Config{Target: target, RMID: rmID, Queues: queues}, licorne.Handlers{
		Session: func(change licorne.SessionChange) {
			if change.State != licorne.SessionReplayed {
				return
			}
			fmt.Println("registered")
			if all.running() == count {
				fmt.Println("replayed", count, "allocations")
				release()
			}
		},
		Allocations: func(response *si.AllocationResponse) {
			before := all.running()
			all.note(response)
			if before < count && all.running() == count {
				fmt.Println(count, "allocations")
				if !restart {
					release()
				}
			}
			if len(all) == 0 {
				fmt.Println(count, "releases")
				// In a goroutine of its own, as it waits for the handlers.
				go func() { stop(rm.Close(ctx, true)) }()
			}
		},
	})
	if err != nil {
		return err
	}
	if err := rm.UpdateNodes(&si.NodeRequest{Nodes: nodes()}); err != nil {
		return err
	}
	if err := rm.UpdateApplications(&si.ApplicationRequest{New: applications()}); err != nil {
		return err
	}
	if err := rm.UpdateAllocations(&si.AllocationRequest{Allocations: all.list()}); err != nil {
		return err
	}
	return rm.Run(ctx)
}
