package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// overSi registers after every loss, and sends all items again. With restart, nothing is released before.
func overSi(target string, restart bool) error {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	for all := asks(); len(all) > 0; {
		if err := register(si.NewSchedulerClient(connection), all, restart); err != nil {
			log.Print(err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}

// register opens the three streams one after another, because messages of different streams have no order.
func register(client si.SchedulerClient, all items, restart bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := client.RegisterResourceManager(ctx, &si.RegisterResourceManagerRequest{RmID: rmID, Config: queues}); err != nil {
		return err
	}
	fmt.Println("registered")
	nodeStream, err := client.UpdateNode(ctx)
	if err != nil {
		return err
	}
	if err := nodeStream.Send(&si.NodeRequest{RmID: rmID, Nodes: nodes()}); err != nil {
		return err
	}
	for accepted := 0; accepted < len(nodes()); {
		response, err := nodeStream.Recv()
		if err != nil {
			return err
		}
		if rejected := response.GetRejected(); len(rejected) > 0 {
			log.Fatal("rejected: ", rejected)
		}
		accepted += len(response.GetAccepted())
	}
	appStream, err := client.UpdateApplication(ctx)
	if err != nil {
		return err
	}
	if err := appStream.Send(&si.ApplicationRequest{RmID: rmID, New: applications()}); err != nil {
		return err
	}
	verdict, err := appStream.Recv()
	if err != nil {
		return err
	}
	if rejected := verdict.GetRejected(); len(rejected) > 0 {
		log.Fatal("rejected: ", rejected)
	}
	stream, err := client.UpdateAllocation(ctx)
	if err != nil {
		return err
	}
	return allocate(stream, all, restart)
}

// allocate sends all asks or allocations, and releases them when the server has confirmed all.
func allocate(stream si.Scheduler_UpdateAllocationClient, all items, restart bool) error {
	did := fmt.Sprint(count, " allocations")
	if all.running() > 0 {
		did, restart = "replayed "+did, false
	}
	if err := stream.Send(&si.AllocationRequest{RmID: rmID, Allocations: all.list()}); err != nil {
		return err
	}
	for confirmed := 0; len(all) > 0; {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		all.note(response)
		// The server echoes every reported allocation.
		confirmed += len(response.GetNew())
		if len(response.GetNew()) > 0 && confirmed == count {
			fmt.Println(did)
			if !restart {
				if err := stream.Send(all.releases()); err != nil {
					return err
				}
			}
		}
	}
	fmt.Println(count, "releases")
	return nil
}
