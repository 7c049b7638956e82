// The example RM in Go: over a session with the Go client, which reconnects and replays by itself, or over
// the three streams of si.v1 on bare stubs.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"licorne.dev/clients/go/licorne"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: example HOST:PORT session|si [restart]")
	}
	run := map[string]func(string, *books) error{"session": overSession, "si": overSi}[os.Args[2]]
	if run == nil {
		log.Fatalf("%q is neither session nor si", os.Args[2])
	}
	if err := run(os.Args[1], newBooks(len(os.Args) > 3)); err != nil {
		log.Fatal(err)
	}
}

// overSession says once what there is. The client says it again whenever the server has restarted.
func overSession(target string, books *books) error {
	var rm *licorne.Client
	finished := make(chan struct{})
	release := func(items []*si.AllocationRelease) {
		if len(items) > 0 {
			request := &si.AllocationRequest{Releases: &si.AllocationReleasesRequest{AllocationsToRelease: items}}
			if err := rm.UpdateAllocations(request); err != nil {
				log.Fatal(err)
			}
		}
	}
	rm, err := licorne.New(licorne.Config{Target: target, RMID: rmID, Queues: queues}, licorne.Handlers{
		Session: func(change licorne.SessionChange) {
			if change.State == licorne.SessionReplayed {
				fmt.Println("registered")
				release(books.replayed())
			}
		},
		Allocations: func(response *si.AllocationResponse) {
			release(books.note(response))
			if books.isOver() {
				close(finished)
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
	if err := rm.UpdateAllocations(&si.AllocationRequest{Allocations: books.all()}); err != nil {
		return err
	}
	go func() {
		<-finished
		if err := rm.Close(context.Background(), true); err != nil {
			log.Print(err)
		}
	}()
	return rm.Run(context.Background())
}

// overSi registers anew after every loss, and says all of it again.
func overSi(target string, books *books) error {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	for !books.isOver() {
		if err := siStreams(si.NewSchedulerClient(connection), books); err != nil {
			log.Print(err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}

// siStreams serves one registration. The three streams have no order among them, so each waits for the one before.
func siStreams(client si.SchedulerClient, books *books) error {
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
		accepted += len(response.GetAccepted())
	}
	appStream, err := client.UpdateApplication(ctx)
	if err != nil {
		return err
	}
	if err := appStream.Send(&si.ApplicationRequest{RmID: rmID, New: applications()}); err != nil {
		return err
	}
	if _, err := appStream.Recv(); err != nil {
		return err
	}
	stream, err := client.UpdateAllocation(ctx)
	if err != nil {
		return err
	}
	return siAllocations(stream, books)
}

// siAllocations asks, and notes what comes, until all is over or the stream is lost.
func siAllocations(stream si.Scheduler_UpdateAllocationClient, books *books) error {
	known, echoed := books.running(), 0
	request := &si.AllocationRequest{RmID: rmID, Allocations: books.all()}
	for !books.isOver() {
		if request != nil {
			if err := stream.Send(request); err != nil {
				return err
			}
		}
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		// The server echoes every allocation that it was told of.
		echoed += len(response.GetNew())
		releases := books.note(response)
		if known > 0 && echoed == known {
			releases = append(releases, books.replayed()...)
		}
		request = nil
		if len(releases) > 0 {
			request = &si.AllocationRequest{RmID: rmID, Releases: &si.AllocationReleasesRequest{AllocationsToRelease: releases}}
		}
	}
	return nil
}
