package main

import (
	"fmt"
	"log"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const (
	rmID   = "example-go"
	count  = 1000
	queues = `partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: examples}]}]}]`
)

func nodes() []*si.NodeInfo {
	all := make([]*si.NodeInfo, 10)
	for i := range all {
		all[i] = &si.NodeInfo{NodeID: fmt.Sprintf("n%d", i), Action: si.NodeInfo_CREATE, SchedulableResource: vcore(100_000)}
	}
	return all
}

func applications() []*si.AddApplicationRequest {
	user := &si.UserGroupInformation{User: "ann"}
	return []*si.AddApplicationRequest{{ApplicationID: "a1", QueueName: "root.examples", Ugi: user}}
}

func vcore(value int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: value}}}
}

// items has the asks and allocations by key. An allocation has a node, an ask does not. A replay needs
// nothing else.
type items map[string]*si.Allocation

func asks() items {
	all := items{}
	for i := range count {
		key := fmt.Sprintf("k%d", i)
		all[key] = &si.Allocation{AllocationKey: key, ApplicationID: "a1", ResourcePerAlloc: vcore(1000)}
	}
	return all
}

func (all items) list() []*si.Allocation {
	list := make([]*si.Allocation, 0, len(all))
	for _, item := range all {
		list = append(list, item)
	}
	return list
}

func (all items) running() int {
	running := 0
	for _, item := range all {
		if item.GetNodeID() != "" {
			running++
		}
	}
	return running
}

func (all items) note(response *si.AllocationResponse) {
	if rejected := response.GetRejectedAllocations(); len(rejected) > 0 {
		log.Fatal("rejected: ", rejected)
	}
	for _, allocation := range response.GetNew() {
		all[allocation.GetAllocationKey()] = allocation
	}
	for _, release := range response.GetReleased() {
		delete(all, release.GetAllocationKey())
	}
}

func (all items) releases() *si.AllocationRequest {
	var list []*si.AllocationRelease
	for key := range all {
		list = append(list, &si.AllocationRelease{
			AllocationKey: key, ApplicationID: "a1", TerminationType: si.TerminationType_STOPPED_BY_RM,
		})
	}
	return &si.AllocationRequest{RmID: rmID, Releases: &si.AllocationReleasesRequest{AllocationsToRelease: list}}
}
