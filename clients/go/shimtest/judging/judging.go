// Package judging evaluates the predicates of Kubernetes for a pod on several nodes at once. The shim's own function
// evaluates all nodes and pods again for each node if a pod has affinities or spread constraints. For this, the plugins
// are created a second time: they share the shim's informers, and volumes are indexed twice.
package judging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

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

// Judge evaluates nodes for the pods of one shim. It is created before the scheduler, which the shim needs.
type Judge struct {
	of atomic.Pointer[predicates]
}

// predicates has the plugins of Kubernetes' default profile, like the shim.
type predicates struct {
	cache   *external.SchedulerCache
	lister  framework.SharedLister
	before  []framework.PreFilterPlugin
	filters []framework.FilterPlugin
}

// ErrLate refuses a node for which there was no time in a check.
var ErrLate = errors.New("the shim took too long for the other nodes; this one is judged later")

var errNotStarted = errors.New("the shim has not started yet")

// lockTime is the longest time for which the shim's cache is locked without a break.
const lockTime = 20 * time.Millisecond

// notAsked has the plugins that the shim replaces: it implements preemption and scheduling gates itself.
var notAsked = map[string]bool{names.DefaultPreemption: true, names.SchedulingGates: true}

// Watch must be called after the shim's context is created and the feature gates are set, before the shim starts.
func (j *Judge) Watch(shim *cache.Context, apis *client.Clients) error {
	known := shim.GetSchedulerCache()
	p := &predicates{cache: known, lister: support.NewSharedLister(known)}
	if err := p.load(support.NewFrameworkHandle(p.lister, apis.InformerFactory, apis.KubeClient.GetClientSet())); err != nil {
		return err
	}
	j.of.Store(p)
	return nil
}

// load creates the plugins. As in the shim, a plugin that cannot be created is left out.
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
			slog.Error("a predicate cannot be asked", "plugin", one.Name, "error", err)
			continue
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

// Nodes returns the reasons by refused node for the pod with this UID. The first node is always evaluated; nodes that
// are not evaluated until the given time have the reason ErrLate. Calls must be sequential, for the shim's cache.
func (j *Judge) Nodes(uid string, nodes []string, until time.Time) map[string]error {
	refused := map[string]error{}
	p := j.of.Load()
	for done := 0; done < len(nodes); {
		switch {
		case p == nil:
			refused[nodes[done]] = errNotStarted
			done++
		case done > 0 && time.Now().After(until):
			refused[nodes[done]] = ErrLate
			done++
		default:
			done += p.some(uid, nodes[done:], until, refused)
		}
	}
	return refused
}

// some evaluates at least one node, and more while the cache may be locked; it returns their number.
func (p *predicates) some(uid string, nodes []string, until time.Time, refused map[string]error) int {
	p.cache.LockForReads()
	defer p.cache.UnlockForReads()
	begin := time.Now()
	pod, known := p.cache.GetPodNoLock(uid), p.cache.GetNodesInfoMap()
	look := look{state: framework.NewCycleState(), pod: pod, skipped: map[string]bool{}}
	if pod != nil {
		p.prepare(&look)
	}
	for i, node := range nodes {
		if now := time.Now(); i > 0 && (now.Sub(begin) > lockTime || now.After(until)) {
			return i
		}
		info := known[node]
		var err error
		switch {
		case pod == nil:
			err = cache.ErrorPodNotFound
		case info == nil:
			err = cache.ErrorNodeNotFound
		default:
			err = p.fits(&look, info, node)
		}
		if err != nil {
			refused[node] = err
		}
	}
	return len(nodes)
}

// look is the state of a pod's evaluation that all nodes share.
type look struct {
	state   fwk.CycleState
	pod     *v1.Pod
	skipped map[string]bool // plugins that do not apply to the pod
	among   []narrowed
	failure error // the reason why no node fits that passes `among`
}

// narrowed has the nodes that remain after a plugin's PreFilter.
type narrowed struct {
	by    string
	among *framework.PreFilterResult
}

// prepare runs PreFilter of all plugins once, in the shim's order.
func (p *predicates) prepare(l *look) {
	all, err := p.lister.NodeInfos().List()
	if err != nil {
		l.failure = failed("", err.Error())
		return
	}
	var among *framework.PreFilterResult
	for _, plugin := range p.before {
		found, status := plugin.PreFilter(context.Background(), l.state, l.pod, all)
		switch {
		case status.IsSkip():
			l.skipped[plugin.Name()] = true
		case status.IsRejected():
			l.failure = failed("", status.Message())
			return
		case !status.IsSuccess():
			l.failure = failed(plugin.Name(), fmt.Sprintf("running PreFilter plugin %q: \n%s", plugin.Name(), status.Message()))
			return
		}
		if among = among.Merge(found); !among.AllNodes() {
			l.among = append(l.among, narrowed{plugin.Name(), among})
		}
	}
}

// fits returns nil if all plugins accept the node, and otherwise the reason.
func (p *predicates) fits(l *look, info *framework.NodeInfo, node string) error {
	for _, one := range l.among {
		if !one.among.NodeNames.Has(node) {
			return failed(one.by, "node not eligible")
		}
	}
	if l.failure != nil {
		return l.failure
	}
	for _, plugin := range p.filters {
		if l.skipped[plugin.Name()] {
			continue
		}
		status := plugin.Filter(context.Background(), l.state, l.pod, info)
		switch {
		case status.IsSuccess():
		case status.IsRejected():
			return failed(plugin.Name(), status.Message())
		default:
			return failed(plugin.Name(),
				fmt.Sprintf("running %q filter plugin for pod %q: %v", plugin.Name(), l.pod.Name, status.Message()))
		}
	}
	return nil
}

// failed returns a refusal with the same text as in the shim.
func failed(plugin, message string) error {
	return errors.Join(fmt.Errorf("failed plugin: '%s'", plugin), errors.New(message))
}
