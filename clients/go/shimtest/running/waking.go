package running

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/events"
	"github.com/apache/yunikorn-k8shim/pkg/common/utils"
	"github.com/apache/yunikorn-k8shim/pkg/dispatcher"
)

// waking is an APIProvider that tells of each pod that the shim was told of, and whether it came with a node.
type waking struct {
	client.APIProvider
	told func(pod *v1.Pod, isAssigned bool)
}

// AddEventHandler registers the shim's handlers, and those of pods so that the telling follows them.
func (w waking) AddEventHandler(handlers *client.ResourceEventHandlers) error {
	if handlers.Type != client.PodInformerHandlers {
		return w.APIProvider.AddEventHandler(handlers)
	}
	with := *handlers
	with.AddFn = func(obj any) {
		w.tell(obj, func() { handlers.AddFn(obj) })
	}
	with.UpdateFn = func(before, after any) {
		w.tell(after, func() { handlers.UpdateFn(before, after) })
	}
	return w.APIProvider.AddEventHandler(&with)
}

func (w waking) tell(obj any, handle func()) {
	pod, isPod := obj.(*v1.Pod)
	// The shim writes a node that it assumes into the pod.
	isAssigned := isPod && pod.Spec.NodeName != ""
	handle()
	if isPod {
		w.told(pod, isAssigned)
	}
}

// told wakes the application of a pod that has yet to be asked for. A pod that is asked for and has a node by
// another hand, or by a bind that took too long, is told to the scheduler anew, as what it is.
func (s *Shim) told(pod *v1.Pod, isAssigned bool) {
	id := utils.GetApplicationIDFromPod(pod)
	if id == "" {
		return
	}
	application := s.context.GetApplication(id)
	if application == nil {
		return
	}
	task := application.GetTask(string(pod.UID))
	if task == nil {
		return
	}
	states := cache.TaskStates()
	switch state := task.GetTaskState(); {
	case state == states.New:
		s.turns.Wake(id)
	case state == states.Failed && isAssigned:
		// A bind that was given up has been carried out: there is nothing to wait for.
		s.again.work.Put(pod.UID, time.Now())
	case state == states.Scheduling && isAssigned && !utils.IsPodTerminated(pod):
		dispatcher.Dispatch(cache.NewFailTaskEvent(id, string(pod.UID), "it has a node already: "+pod.Spec.NodeName))
	}
}

// applicationEvents wakes an application whose state an event has changed.
func (s *Shim) applicationEvents(handle func(any)) func(any) {
	return func(obj any) {
		event, ok := obj.(events.ApplicationEvent)
		if !ok {
			handle(obj)
			return
		}
		application := s.context.GetApplication(event.GetApplicationID())
		if application == nil {
			handle(obj)
			return
		}
		before := application.GetApplicationState()
		handle(obj)
		if application.GetApplicationState() != before {
			s.turns.Wake(event.GetApplicationID())
		}
	}
}

// turn is that of one application.
func (s *Shim) turn(id string) {
	if application := s.context.GetApplication(id); application != nil {
		s.schedule(application)
	}
}

// scan is a turn of all applications.
func (s *Shim) scan() {
	for _, application := range s.context.GetAllApplications() {
		s.schedule(application)
	}
}

// schedule has an application ask for its new pods, or take the next step of its own. One that has failed is
// forgotten with its last pod.
func (s *Shim) schedule(application *cache.Application) {
	if application.GetApplicationState() != cache.ApplicationStates().Failed {
		application.Schedule()
		return
	}
	if application.AreAllTasksTerminated() {
		s.context.RemoveApplication(application.GetApplicationID())
	}
}
