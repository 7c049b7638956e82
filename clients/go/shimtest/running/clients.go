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
	// quietTime is the time without binds and status changes after which events are posted.
	quietTime = 200 * time.Millisecond
	// eventDelay is the delay after which an event is posted with up to bindsBeforeEvents such calls running.
	eventDelay        = 10 * time.Second
	bindsBeforeEvents = 16
)

// Clients has the clients of one cluster, with one watch for each kind of object.
type Clients struct {
	// Informers are started by the shim.
	Informers informers.SharedInformerFactory
	settings  *conf.SchedulerConf
	config    *rest.Config
	set       kubernetes.Interface
}

// Reach creates the clients of the cluster in the shim's configuration. It sends nothing.
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

// withoutManagers removes the managed fields of an object: a third of a pod, which nothing here reads.
func withoutManagers(obj any) (any, error) {
	if known, err := meta.Accessor(obj); err == nil {
		known.SetManagedFields(nil)
	}
	return obj, nil
}

// Provider returns the shim's access to the cluster and its scheduler, and the client for pods.
func (c *Clients) Provider(scheduler api.SchedulerAPI) (client.APIProvider, *apicalls.Client) {
	provider := client.NewAPIFactory(scheduler, c.Informers, c.settings, false)
	apis := provider.GetAPIs()
	pods := apicalls.New(c.set, apis.KubeClient)
	apis.KubeClient = pods
	return provider, pods
}

// Record posts the events of the shim until the context ends, after the binds of its pods. The events of a pod until it
// is bound are joined into one, and the reason why a pod waits is from the explainer.
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

// RecordAll posts all events of the shim at once, like the published shim.
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

// forEvents returns a clientset with its own rate limit, so that binds do not wait for events.
func (c *Clients) forEvents() (kubernetes.Interface, error) {
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("events cannot be posted: %w", err)
	}
	return set, nil
}
