// Package judging asks the predicates of Kubernetes about several nodes for a pod at a time. The shim's own function
// looks at all nodes and pods anew for each node, where a pod has affinity to others or is to be spread.
package judging

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/cache/external"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/plugin/support"
)

// Judge judges nodes for the pods of one shim. It is made before the shim, which is made with the scheduler that asks it.
type Judge struct {
	of atomic.Pointer[predicates]
}

// predicates are those of Kubernetes' default profile, as the shim has them.
type predicates struct {
	cache   *external.SchedulerCache
	lister  framework.SharedLister
	before  []framework.PreFilterPlugin
	filters []framework.FilterPlugin
}

var errNotStarted = errors.New("the shim has not started yet")

// notAsked are plugins that the shim has in ways of its own.
var notAsked = map[string]bool{names.DefaultPreemption: true, names.SchedulingGates: true}

// Watch is called before the shim starts.
func (j *Judge) Watch(shim *cache.Context, apis *client.Clients) error {
	known := shim.GetSchedulerCache()
	p := &predicates{cache: known, lister: support.NewSharedLister(known)}
	if err := p.load(support.NewFrameworkHandle(p.lister, apis.InformerFactory, apis.KubeClient.GetClientSet())); err != nil {
		return err
	}
	j.of.Store(p)
	return nil
}

func (p *predicates) load(handle framework.Handle) error {
	config, err := latest.Default()
	if err != nil {
		return fmt.Errorf("there is no profile of predicates: %w", err)
	}
	profile, registry := config.Profiles[0], plugins.NewInTreeRegistry()
	args := map[string]runtime.Object{}
	for _, one := range profile.PluginConfig {
		args[one.Name] = one.Args
	}
	for _, one := range profile.Plugins.MultiPoint.Enabled {
		if notAsked[one.Name] {
			continue
		}
		plugin, err := registry[one.Name](context.Background(), args[one.Name], handle)
		if err != nil {
			return fmt.Errorf("predicates of %s: %w", one.Name, err)
		}
		if before, is := plugin.(framework.PreFilterPlugin); is {
			p.before = append(p.before, before)
		}
		if filter, is := plugin.(framework.FilterPlugin); is {
			p.filters = append(p.filters, filter)
		}
	}
	return nil
}

// Nodes says why some of the nodes refuse the pod with that UID.
func (j *Judge) Nodes(uid string, nodes []string) map[string]error {
	refused := map[string]error{}
	p := j.of.Load()
	if p == nil {
		for _, node := range nodes {
			refused[node] = errNotStarted
		}
		return refused
	}
	pod, infos := p.find(uid, nodes)
	p.cache.LockForReads()
	defer p.cache.UnlockForReads()
	state := framework.NewCycleState()
	among, skipped, failure := p.prepare(state, pod)
	for i, node := range nodes {
		err := failure
		switch {
		case err != nil:
		case pod == nil:
			err = cache.ErrorPodNotFound
		case infos[i] == nil:
			err = cache.ErrorNodeNotFound
		case !among.AllNodes() && !among.NodeNames.Has(node):
			err = errors.New("node not eligible")
		default:
			err = p.filter(state, pod, infos[i], skipped)
		}
		if err != nil {
			refused[node] = err
		}
	}
	return refused
}

// find is before the cache is locked, which the look-ups do themselves.
func (p *predicates) find(uid string, nodes []string) (*v1.Pod, []*framework.NodeInfo) {
	infos := make([]*framework.NodeInfo, len(nodes))
	for i, node := range nodes {
		infos[i] = p.cache.GetNode(node)
	}
	return p.cache.GetPod(uid), infos
}

// prepare looks at all nodes once: which may do at all, which plugins have nothing to say, and why none will do.
func (p *predicates) prepare(
	state fwk.CycleState, pod *v1.Pod,
) (among *framework.PreFilterResult, skipped map[string]bool, failure error) {
	skipped = map[string]bool{}
	if pod == nil {
		return nil, skipped, nil
	}
	all, err := p.lister.NodeInfos().List()
	if err != nil {
		return nil, skipped, err
	}
	for _, plugin := range p.before {
		found, status := plugin.PreFilter(context.Background(), state, pod, all)
		switch {
		case status.IsSkip():
			skipped[plugin.Name()] = true
		case !status.IsSuccess():
			return nil, skipped, failed(plugin, status)
		}
		among = among.Merge(found)
	}
	return among, skipped, nil
}

func (p *predicates) filter(state fwk.CycleState, pod *v1.Pod, node *framework.NodeInfo, skipped map[string]bool) error {
	for _, plugin := range p.filters {
		if skipped[plugin.Name()] {
			continue
		}
		if status := plugin.Filter(context.Background(), state, pod, node); !status.IsSuccess() {
			return failed(plugin, status)
		}
	}
	return nil
}

// failed is worded as by the shim.
func failed(plugin framework.Plugin, status *fwk.Status) error {
	return errors.Join(fmt.Errorf("failed plugin: '%s'", plugin.Name()), errors.New(status.Message()))
}
