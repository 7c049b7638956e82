package running

import (
	"context"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/constants"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-k8shim/pkg/dispatcher"
	"github.com/apache/yunikorn-k8shim/pkg/log"
	"github.com/apache/yunikorn-k8shim/pkg/plugin/predicates"
)

func TestMain(m *testing.M) {
	log.UpdateLoggingConfig(map[string]string{"log.level": "FATAL"})
	predicates.EnableOptionalKubernetesFeatureGates()
	os.Exit(m.Run())
}

// started is a shim on a cluster that is played. Its turns are told, and there are no scans.
func started(t *testing.T) (*Shim, *client.MockedAPIProvider, chan string) {
	t.Helper()
	dispatcher.UnregisterAllEventHandlers()
	provider := client.NewMockedAPIProvider(false)
	shim := New(provider, []*v1.ConfigMap{nil, nil})
	turns := make(chan string, 100)
	shim.turns = NewTurns(func(application string) {
		shim.turn(application)
		turns <- application
	}, func() {}, 0)
	dispatcher.Start()
	provider.RunEventHandler()
	if err := shim.context.AddSchedulingEventHandlers(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		shim.Work(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		provider.Stop()
	})
	return shim, provider, turns
}

func aPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			Annotations: map[string]string{constants.AnnotationApplicationID: "app"},
		},
		Spec: v1.PodSpec{SchedulerName: constants.SchedulerName},
	}
}

// An application is woken by its pods that are to be placed, and by each step of its own.
func TestWhatWakes(t *testing.T) {
	shim, provider, turns := started(t)
	provider.AddPod(aPod("first"))
	if woken := <-turns; woken != "app" {
		t.Fatalf("%q was woken", woken)
	}
	states := cache.ApplicationStates()
	if state := shim.context.GetApplication("app").GetApplicationState(); state != states.Submitted {
		t.Fatalf("the application is %s after its first turn", state)
	}
	// The core accepts it, and it runs: two changes of state, of which the first asks for the second.
	dispatcher.Dispatch(cache.NewSimpleApplicationEvent("app", cache.AcceptApplication))
	for shim.context.GetApplication("app").GetApplicationState() != states.Running {
		<-turns
	}
	task := shim.context.GetApplication("app").GetTask("uid-first")
	for task.GetTaskState() == cache.TaskStates().New {
		<-turns
	}
}

// Changes of pods that were asked for, and pods of others, wake nothing.
func TestWhatDoesNotWake(t *testing.T) {
	shim, provider, turns := started(t)
	provider.AddPod(aPod("first"))
	<-turns
	task := shim.context.GetApplication("app").GetTask("uid-first")
	task.MarkPreviouslyAllocated("uid-first", "node")
	after := aPod("first")
	after.Spec.NodeName = "node"
	provider.UpdatePod(aPod("first"), after)
	foreign := aPod("foreign")
	foreign.Annotations, foreign.Spec.SchedulerName = nil, "another"
	provider.AddPod(foreign)
	// What comes last is told last.
	other := aPod("other")
	other.Annotations[constants.AnnotationApplicationID] = "other"
	provider.AddPod(other)
	if woken := <-turns; woken != "other" {
		t.Errorf("%q was woken", woken)
	}
}

// A config map that says an interval decides, and one that says none does not.
func TestIntervalOfConfigMap(t *testing.T) {
	if got := interval([]*v1.ConfigMap{nil, {Data: map[string]string{conf.CMSvcClusterID: "c"}}}); got != 0 {
		t.Errorf("without an interval it is %v", got)
	}
	said := []*v1.ConfigMap{nil, {Data: map[string]string{conf.CMSvcSchedulingInterval: "1s"}}}
	if got := interval(said); got != conf.DefaultSchedulingInterval {
		t.Errorf("an interval of 1s is %v", got)
	}
}
