package main

import (
	"context"
	"fmt"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"licorne.dev/clients/go/licorne"
)

// overSession submits all items once; the client replays them after a restart of the server. With restart,
// nothing is released before that replay.
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
				// In a separate goroutine, because Close waits for the handlers.
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
