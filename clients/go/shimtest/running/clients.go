package running

import (
	"context"
	"fmt"
	"os"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	k8sevents "k8s.io/client-go/tools/events"

	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/constants"
	"github.com/apache/yunikorn-k8shim/pkg/common/events"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"

	"licorne.dev/clients/go/shimtest/apicalls"
	"licorne.dev/clients/go/shimtest/recording"
)

const (
	// quietTime is for how long there are no binds and changes of status before an event is posted.
	quietTime = 200 * time.Millisecond
	// eventDelay is after how long it is posted all the same, with no more than bindsBeforeEvents of them under way.
	eventDelay        = 10 * time.Second
	bindsBeforeEvents = 16
)

// Clients are those of one cluster, with one watch for each kind of object.
type Clients struct {
	// Informers are started by the shim.
	Informers informers.SharedInformerFactory
	settings  *conf.SchedulerConf
	config    *rest.Config
	set       kubernetes.Interface
}

// Reach makes the clients of the cluster that the shim's configuration names. Nothing is sent yet.
func Reach() (*Clients, error) {
	settings := conf.GetSchedulerConf()
	config, err := apicalls.Config(settings.KubeConfig, float32(settings.KubeQPS), settings.KubeBurst)
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the API server cannot be called: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithTransform(withoutManagers))
	return &Clients{Informers: factory, settings: settings, config: config, set: set}, nil
}

// withoutManagers leaves out who has set which field of an object: a third of a pod, which nobody here reads.
func withoutManagers(obj any) (any, error) {
	if known, err := meta.Accessor(obj); err == nil {
		known.SetManagedFields(nil)
	}
	return obj, nil
}

// Provider is what the shim calls the cluster and its scheduler by, and the client of pods in it.
func (c *Clients) Provider(scheduler api.SchedulerAPI) (client.APIProvider, *apicalls.Client) {
	provider := client.NewAPIFactory(scheduler, c.Informers, c.settings, false)
	apis := provider.GetAPIs()
	pods := apicalls.New(c.set, apis.KubeClient)
	apis.KubeClient = pods
	return provider, pods
}

// Record has the events of the shim posted while the context lasts, behind the binds of its pods: those on the way of a
// pod joined into one, and why a pod waits by the reason that the explainer finds.
func (c *Clients) Record(ctx context.Context, pods *apicalls.Client, explainer *recording.Explainer, shim *Shim) error {
	set, err := c.forEvents()
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	recorder := recording.New(recording.Options{
		Post: func(ctx context.Context, event *eventsv1.Event) error {
			_, err := set.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
			return err
		},
		Settle: func(ctx context.Context, since time.Time) {
			pods.Load().Settle(ctx, bindsBeforeEvents, quietTime, since.Add(eventDelay))
		},
		Why:        explainer.Why,
		Waits:      shim.waits,
		Controller: constants.SchedulerName,
		Instance:   constants.SchedulerName + "-" + host,
	})
	go recorder.Run(ctx)
	events.SetRecorder(recorder)
	return nil
}

// RecordAll has all events of the shim posted as they come, as the published one does.
func (c *Clients) RecordAll(ctx context.Context) error {
	set, err := c.forEvents()
	if err != nil {
		return err
	}
	broadcaster := k8sevents.NewBroadcaster(&k8sevents.EventSinkImpl{Interface: set.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("events cannot be posted: %w", err)
	}
	events.SetRecorder(broadcaster.NewRecorder(scheme.Scheme, constants.SchedulerName))
	return nil
}

// forEvents is a clientset with a limit of requests of its own, so that binds do not wait for events.
func (c *Clients) forEvents() (kubernetes.Interface, error) {
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("events cannot be posted: %w", err)
	}
	return set, nil
}
