// Package running assembles the published Kubernetes shim so that it reacts quickly: new pods wake it, and pods that
// could not be bound are placed again.
package running

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/utils"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-k8shim/pkg/dispatcher"
	"github.com/apache/yunikorn-k8shim/pkg/log"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// Shim is one run of the shim. A process can have only one, because the published shim has a global dispatcher and
// configuration.
type Shim struct {
	provider     client.APIProvider
	context      *cache.Context
	placeholders *cache.PlaceholderManager
	turns        *Turns
	again        *again
	stop         context.CancelFunc
}

// New creates a shim with its clients and its initial config maps. It must be called before the clients are started.
func New(provider client.APIProvider, configMaps []*v1.ConfigMap) *Shim {
	s := &Shim{stop: func() {}}
	s.provider = waking{provider, s.told}
	s.context = cache.NewContextWithBootstrapConfigMaps(s.provider, configMaps)
	s.placeholders = cache.NewPlaceholderManager(provider.GetAPIs())
	s.turns = NewTurns(s.turn, s.scan, interval(configMaps))
	s.again = newAgain(s)
	dispatcher.RegisterEventHandler("applications", dispatcher.EventTypeApp,
		s.applicationEvents(s.context.ApplicationEventHandler()))
	dispatcher.RegisterEventHandler("tasks", dispatcher.EventTypeTask, s.again.taskEvents(s.context.TaskEventHandler()))
	return s
}

// interval returns the configured time between two scans for new pods; 0 if the config maps do not set it.
func interval(configMaps []*v1.ConfigMap) time.Duration {
	if conf.FlattenConfigMaps(configMaps)[conf.CMSvcSchedulingInterval] == "" {
		return 0
	}
	return conf.GetSchedulerConf().GetSchedulingInterval()
}

// Context returns the shim's context, with its cache.
func (s *Shim) Context() *cache.Context { return s.context }

// Start registers the shim with its scheduler, sends the state of the cluster, and starts the work, until Stop.
func (s *Shim) Start() error {
	// The dispatcher is started first, because it handles the answers of the scheduler.
	dispatcher.Start()
	s.placeholders.Start()
	s.provider.Start()
	if err := s.register(); err != nil {
		return fmt.Errorf("the shim cannot register: %w", err)
	}
	if err := s.context.InitializeState(); err != nil {
		return fmt.Errorf("the shim cannot tell the cluster: %w", err)
	}
	// The published shim logs the same message, for which its parent process may wait.
	log.Log(log.ShimScheduler).Info("scheduler state initialized")
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.Work(ctx)
	return nil
}

func (s *Shim) register() error {
	configMaps, err := s.context.LoadConfigMaps()
	if err != nil {
		return err
	}
	settings, config := conf.GetSchedulerConf(), conf.FlattenConfigMaps(configMaps)
	_, err = s.provider.GetAPIs().SchedulerAPI.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID:        settings.ClusterID,
		Version:     settings.ClusterVersion,
		PolicyGroup: settings.PolicyGroup,
		BuildInfo:   conf.GetBuildInfoMap(),
		Config:      utils.GetCoreSchedulerConfigFromConfigMap(config),
		ExtraConfig: utils.GetExtraConfigFromConfigMap(config),
	}, cache.NewAsyncRMCallback(s.context))
	return err
}

// Work runs the turns of applications, and places failed pods again, until the context ends.
func (s *Shim) Work(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { s.turns.Run(ctx) })
	both.Go(func() { s.again.work.Run(ctx, s.again.place) })
	both.Wait()
}

// waits returns whether a pod has yet to be placed.
func (s *Shim) waits(application, key string) bool {
	known := s.context.GetApplication(application)
	if known == nil {
		return false
	}
	task, states := known.GetTask(key), cache.TaskStates()
	return task != nil && !slices.Contains(states.Terminated, task.GetTaskState())
}

// Stop ends a started shim, without notifying the scheduler.
func (s *Shim) Stop() {
	s.stop()
	dispatcher.Stop()
	s.placeholders.Stop()
	s.provider.Stop()
}
