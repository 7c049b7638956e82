package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// connect is the first line: the configuration of the client.
type connect struct {
	Target   string `json:"target"`
	RMID     string `json:"rm_id"`
	Instance uint64 `json:"instance"`
	Queues   string `json:"queues"`
	Retry    *struct {
		Initial int64 `json:"initial_ms"`
		Maximum int64 `json:"maximum_ms"`
	} `json:"retry"`
	Predicates *struct {
		Deadline int64             `json:"deadline_ms"`
		FailOpen bool              `json:"fail_open"`
		Refuse   map[string]string `json:"refuse"`
		Victims  map[string]*int   `json:"victims"`
	} `json:"predicates"`
	ContainerStates bool `json:"container_states"`
	TLS             *struct {
		CA   string `json:"ca"`
		Cert string `json:"cert"`
		Key  string `json:"key"`
	} `json:"tls"`
}

// peer is a client, with its answers to checks.
type peer struct {
	client *licorne.Client
	out    *output
	ended  chan struct{}

	mu sync.Mutex
	// changed is signalled when muted changes.
	changed *sync.Cond
	muted   bool
	// refuse has the reason of the refusal by refused node.
	refuse map[string]string
	// victims has the position of the last victim to be stopped by node, or nil for a refused node.
	victims map[string]*int
}

func newPeer(c connect, out *output) (*peer, error) {
	p := &peer{out: out, ended: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	config := licorne.Config{
		Target: c.Target, RMID: c.RMID, Instance: c.Instance, Queues: c.Queues,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if c.Retry != nil {
		config.Retry.Initial = time.Duration(c.Retry.Initial) * time.Millisecond
		config.Retry.Maximum = time.Duration(c.Retry.Maximum) * time.Millisecond
	}
	handlers := licorne.Handlers{
		Nodes: p.nodes, Applications: p.applications, Allocations: p.allocations, Session: p.session,
	}
	if c.Predicates != nil {
		p.refuse = c.Predicates.Refuse
		config.Predicates = &licorne.PredicateOptions{
			Deadline: time.Duration(c.Predicates.Deadline) * time.Millisecond, FailOpen: c.Predicates.FailOpen,
		}
		handlers.Check = p.check
		if p.victims = c.Predicates.Victims; p.victims != nil {
			handlers.JudgeVictims = p.judgeVictims
		}
	}
	if c.ContainerStates {
		handlers.ContainerStates = p.containerStates
	}
	if c.TLS != nil {
		var err error
		if config.TLS, err = readTLS(c.TLS.CA, c.TLS.Cert, c.TLS.Key); err != nil {
			return nil, err
		}
	}
	var err error
	p.client, err = licorne.New(config, handlers)
	return p, err
}

func readTLS(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("no certificate in %s", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// run uses the client until it ends.
func (p *peer) run() {
	defer close(p.ended)
	if err := p.client.Run(context.Background()); err != nil && !errors.Is(err, licorne.ErrClosed) {
		slog.Warn("the client has ended", "error", err)
	}
}

func (p *peer) mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = on
	p.changed.Broadcast()
}

// check refuses the nodes in refuse. It waits while the peer is muted.
func (p *peer) check(check *licornev1.PredicateCheck) map[string]string {
	p.out.write(line{"event": "check", "key": check.GetAllocationKey(), "nodes": check.GetNodeIds()})
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.muted {
		p.changed.Wait()
	}
	return p.refuse
}

// judgeVictims answers with the positions in victims, and for other nodes with the fewest victims. It waits
// while the peer is muted.
func (p *peer) judgeVictims(check *licornev1.PreemptionCheck) map[string]int {
	nodes := make([]line, 0, len(check.GetNodes()))
	for _, node := range check.GetNodes() {
		victims := make([]string, 0, len(node.GetVictims()))
		for _, victim := range node.GetVictims() {
			victims = append(victims, victim.GetAllocationKey())
		}
		nodes = append(nodes, line{"node": node.GetNodeId(), "victims": victims, "start": node.GetStartIndex()})
	}
	p.out.write(line{"event": "preemption_check", "key": check.GetAllocationKey(), "nodes": nodes})
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.muted {
		p.changed.Wait()
	}
	last := make(map[string]int, len(check.GetNodes()))
	for _, node := range check.GetNodes() {
		if index, told := p.victims[node.GetNodeId()]; !told {
			last[node.GetNodeId()] = int(node.GetStartIndex())
		} else if index != nil {
			last[node.GetNodeId()] = *index
		}
	}
	return last
}

func (p *peer) session(change licorne.SessionChange) {
	switch change.State {
	case licorne.SessionReplayed, licorne.SessionResumed:
		p.out.write(line{"event": "connected", "resumed": change.State == licorne.SessionResumed})
	case licorne.SessionLost:
		p.out.write(line{"event": "lost"})
	case licorne.SessionEnded:
		err := change.Err
		if err == nil {
			err = licorne.ErrClosed
		}
		p.out.write(line{"event": "final", "error": nameOf(err), "text": err.Error()})
	}
}

func (p *peer) nodes(response *si.NodeResponse) {
	for _, item := range response.GetAccepted() {
		p.out.write(line{"event": "node_accepted", "id": item.GetNodeID()})
	}
	for _, item := range response.GetRejected() {
		p.out.write(line{"event": "node_rejected", "id": item.GetNodeID(), "reason": item.GetReason()})
	}
}

func (p *peer) applications(response *si.ApplicationResponse) {
	for _, item := range response.GetAccepted() {
		p.out.write(line{"event": "application_accepted", "id": item.GetApplicationID()})
	}
	for _, item := range response.GetRejected() {
		p.out.write(line{"event": "application_rejected", "id": item.GetApplicationID(), "reason": item.GetReason()})
	}
	for _, item := range response.GetUpdated() {
		p.out.write(line{"event": "application_state", "id": item.GetApplicationID(), "state": item.GetState()})
	}
}

func (p *peer) allocations(response *si.AllocationResponse) {
	for _, item := range response.GetNew() {
		p.out.write(line{
			"event": "allocated", "key": item.GetAllocationKey(), "node": item.GetNodeID(), "app": item.GetApplicationID(),
		})
	}
	for _, item := range response.GetReleased() {
		p.out.write(line{
			"event": "released", "key": item.GetAllocationKey(),
			"type": item.GetTerminationType().String(), "message": item.GetMessage(),
		})
	}
	for _, item := range response.GetRejectedAllocations() {
		p.out.write(line{"event": "ask_rejected", "key": item.GetAllocationKey(), "reason": item.GetReason()})
	}
}

func (p *peer) containerStates(states []*si.UpdateContainerSchedulingStateRequest) {
	for _, item := range states {
		p.out.write(line{"event": "container_state", "key": item.GetAllocationKey(), "reason": item.GetReason()})
	}
}
