package running

import (
	v1 "k8s.io/api/core/v1"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/events"
	"github.com/apache/yunikorn-k8shim/pkg/common/utils"
)

// waking is an APIProvider that tells of each pod that the shim was told of.
type waking struct {
	client.APIProvider
	told func(*v1.Pod)
}

// AddEventHandler registers the shim's handlers, and those of pods so that the telling follows them.
func (w waking) AddEventHandler(handlers *client.ResourceEventHandlers) error {
	if handlers.Type != client.PodInformerHandlers {
		return w.APIProvider.AddEventHandler(handlers)
	}
	with := *handlers
	with.AddFn = func(obj any) {
		handlers.AddFn(obj)
		w.tell(obj)
	}
	with.UpdateFn = func(before, after any) {
		handlers.UpdateFn(before, after)
		w.tell(after)
	}
	return w.APIProvider.AddEventHandler(&with)
}

func (w waking) tell(obj any) {
	if pod, ok := obj.(*v1.Pod); ok {
		w.told(pod)
	}
}

// wakeFor wakes the application of a pod that has yet to be asked for.
func (s *Shim) wakeFor(pod *v1.Pod) {
	id := utils.GetApplicationIDFromPod(pod)
	if id == "" {
		return
	}
	application := s.context.GetApplication(id)
	if application == nil {
		return
	}
	task := application.GetTask(string(pod.UID))
	if task != nil && task.GetTaskState() == cache.TaskStates().New {
		s.turns.Wake(id)
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
