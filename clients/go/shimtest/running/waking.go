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

// waking is an APIProvider that reports each pod that the shim has received, and whether it had a node.
type waking struct {
	client.APIProvider
	told func(pod *v1.Pod, isAssigned bool)
}

// AddEventHandler registers the shim's handlers; after those of pods, it reports the pod.
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
	// The shim later sets the assumed node in the pod.
	isAssigned := isPod && pod.Spec.NodeName != ""
	handle()
	if isPod {
		w.told(pod, isAssigned)
	}
}

// told wakes the application of a pod without an ask. If a pod with an ask was bound by another program, or by a bind
// that took too long, it is sent to the scheduler again, as an allocation.
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
		// A bind that had failed for the shim was carried out, so the pod is handled now.
		s.again.work.Put(pod.UID, time.Now())
	case state == states.Scheduling && isAssigned && !utils.IsPodTerminated(pod):
		dispatcher.Dispatch(cache.NewFailTaskEvent(id, string(pod.UID), "it has a node already: "+pod.Spec.NodeName))
	}
}

// applicationEvents wakes an application when an event has changed its state.
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

// turn runs a turn of one application.
func (s *Shim) turn(id string) {
	if application := s.context.GetApplication(id); application != nil {
		s.schedule(application)
	}
}

// scan runs a turn of all applications.
func (s *Shim) scan() {
	for _, application := range s.context.GetAllApplications() {
		s.schedule(application)
	}
}

// schedule lets an application ask for its new pods, or take its next step. A failed application is removed after
// its last pod.
func (s *Shim) schedule(application *cache.Application) {
	if application.GetApplicationState() != cache.ApplicationStates().Failed {
		application.Schedule()
		return
	}
	if application.AreAllTasksTerminated() {
		s.context.RemoveApplication(application.GetApplicationID())
	}
}
