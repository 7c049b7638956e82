package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/common"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// command is any line except the first. Do determines the other fields.
type command struct {
	Do           string           `json:"do"`
	Nodes        json.RawMessage  `json:"nodes"`
	Node         string           `json:"node"`
	Capacity     map[string]int64 `json:"capacity"`
	Applications []application    `json:"applications"`
	ID           string           `json:"id"`
	Asks         []ask            `json:"asks"`
	App          string           `json:"app"`
	Keys         []string         `json:"keys"`
	Queues       string           `json:"queues"`
	On           bool             `json:"on"`
	Unregister   bool             `json:"unregister"`
	Type         string           `json:"type"`
}

type node struct {
	ID         string            `json:"id"`
	Capacity   map[string]int64  `json:"capacity"`
	Partition  string            `json:"partition"`
	Attributes map[string]string `json:"attributes"`
}

type application struct {
	ID             string            `json:"id"`
	Queue          string            `json:"queue"`
	User           string            `json:"user"`
	Tags           map[string]string `json:"tags"`
	Partition      string            `json:"partition"`
	PlaceholderAsk map[string]int64  `json:"placeholder_ask"`
	Timeout        int64             `json:"timeout_ms"`
	Style          string            `json:"style"`
}

type ask struct {
	Key               string            `json:"key"`
	App               string            `json:"app"`
	Resources         map[string]int64  `json:"resources"`
	Priority          int32             `json:"priority"`
	Tags              map[string]string `json:"tags"`
	Partition         string            `json:"partition"`
	Node              string            `json:"node"`
	TaskGroup         string            `json:"task_group"`
	Placeholder       bool              `json:"placeholder"`
	Originator        bool              `json:"originator"`
	AllowPreemptSelf  bool              `json:"allow_preempt_self"`
	AllowPreemptOther bool              `json:"allow_preempt_other"`
}

// carryOut carries out a command, and returns the error of the client's call.
func (p *peer) carryOut(c command) error {
	switch c.Do {
	case "nodes":
		return p.addNodes(c)
	case "update_node":
		return p.changeNode(&si.NodeInfo{
			NodeID: c.Node, Action: si.NodeInfo_UPDATE, SchedulableResource: resource(c.Capacity),
		})
	case "drain":
		return p.changeNode(&si.NodeInfo{NodeID: c.Node, Action: si.NodeInfo_DRAIN_NODE})
	case "undrain":
		return p.changeNode(&si.NodeInfo{NodeID: c.Node, Action: si.NodeInfo_DRAIN_TO_SCHEDULABLE})
	case "remove_node":
		return p.changeNode(&si.NodeInfo{NodeID: c.Node, Action: si.NodeInfo_DECOMISSION})
	case "applications":
		return p.submit(c)
	case "remove_application":
		removal := &si.RemoveApplicationRequest{ApplicationID: c.ID}
		return p.client.UpdateApplications(&si.ApplicationRequest{Remove: []*si.RemoveApplicationRequest{removal}})
	case "asks":
		return p.ask(c)
	case "release":
		return p.release(c)
	case "configure":
		return p.client.UpdateConfiguration(context.Background(), c.Queues, nil)
	case "refuse":
		return p.setRefused(c)
	case "victims":
		return p.setVictims(c)
	case "mute":
		p.mute(c.On)
		return nil
	case "close":
		return p.close(c)
	case "exit":
		os.Exit(0)
		return nil
	default:
		return unknownError(c.Do)
	}
}

func resource(amounts map[string]int64) *si.Resource {
	quantities := make(map[string]*si.Quantity, len(amounts))
	for name, value := range amounts {
		quantities[name] = &si.Quantity{Value: value}
	}
	return &si.Resource{Resources: quantities}
}

func (p *peer) addNodes(c command) error {
	var nodes []node
	if err := json.Unmarshal(c.Nodes, &nodes); err != nil {
		return err
	}
	request := &si.NodeRequest{}
	for _, item := range nodes {
		info := &si.NodeInfo{
			NodeID: item.ID, Action: si.NodeInfo_CREATE, SchedulableResource: resource(item.Capacity),
			Attributes: item.Attributes,
		}
		if item.Partition != "" {
			if info.Attributes == nil {
				info.Attributes = make(map[string]string)
			}
			info.Attributes[common.NodePartition] = item.Partition
		}
		request.Nodes = append(request.Nodes, info)
	}
	return p.client.UpdateNodes(request)
}

func (p *peer) changeNode(info *si.NodeInfo) error {
	return p.client.UpdateNodes(&si.NodeRequest{Nodes: []*si.NodeInfo{info}})
}

func (p *peer) submit(c command) error {
	request := &si.ApplicationRequest{}
	for _, item := range c.Applications {
		added := &si.AddApplicationRequest{
			ApplicationID: item.ID, QueueName: item.Queue, PartitionName: item.Partition, Tags: item.Tags,
			Ugi:                          &si.UserGroupInformation{User: item.User},
			ExecutionTimeoutMilliSeconds: item.Timeout, GangSchedulingStyle: item.Style,
		}
		if item.PlaceholderAsk != nil {
			added.PlaceholderAsk = resource(item.PlaceholderAsk)
		}
		request.New = append(request.New, added)
	}
	return p.client.UpdateApplications(request)
}

func (p *peer) ask(c command) error {
	request := &si.AllocationRequest{}
	for _, item := range c.Asks {
		request.Allocations = append(request.Allocations, &si.Allocation{
			AllocationKey: item.Key, ApplicationID: item.App, PartitionName: item.Partition, NodeID: item.Node,
			ResourcePerAlloc: resource(item.Resources), Priority: item.Priority, AllocationTags: item.Tags,
			TaskGroupName: item.TaskGroup, Placeholder: item.Placeholder, Originator: item.Originator,
			PreemptionPolicy: &si.PreemptionPolicy{
				AllowPreemptSelf: item.AllowPreemptSelf, AllowPreemptOther: item.AllowPreemptOther,
			},
		})
	}
	return p.client.UpdateAllocations(request)
}

func (p *peer) release(c command) error {
	termination, known := si.TerminationType_value[c.Type]
	if !known && c.Type != "" {
		return fmt.Errorf("no termination is called %q", c.Type)
	}
	releases := &si.AllocationReleasesRequest{}
	for _, key := range c.Keys {
		releases.AllocationsToRelease = append(releases.AllocationsToRelease, &si.AllocationRelease{
			ApplicationID: c.App, AllocationKey: key, TerminationType: si.TerminationType(termination),
		})
	}
	return p.client.UpdateAllocations(&si.AllocationRequest{Releases: releases})
}

func (p *peer) setRefused(c command) error {
	refuse := make(map[string]string)
	if err := json.Unmarshal(c.Nodes, &refuse); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
	return nil
}

func (p *peer) setVictims(c command) error {
	victims := make(map[string]*int)
	if err := json.Unmarshal(c.Nodes, &victims); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.victims = victims
	return nil
}

// close ends the client. It is no error if there was no session for the goodbye.
func (p *peer) close(c command) error {
	p.mute(false)
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	if err := p.client.Close(ctx, c.Unregister); !errors.Is(err, licorne.ErrNotTold) {
		return err
	}
	return nil
}
