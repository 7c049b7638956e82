package running

import (
	"log/slog"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/apache/yunikorn-k8shim/pkg/cache"
	"github.com/apache/yunikorn-k8shim/pkg/common/events"
	"github.com/apache/yunikorn-k8shim/pkg/common/utils"

	"licorne.dev/clients/go/shimtest/due"
)

const (
	// firstAgain is the delay before a pod is placed again, which doubles with each failure up to lastAgain.
	firstAgain = time.Second
	lastAgain  = time.Minute
)

// again places pods again after a failure, for instance of the bind. The shim itself only frees their resources, and
// ignores them until its next start.
type again struct {
	shim *Shim
	work *due.Work[types.UID]

	mu     sync.Mutex
	failed map[types.UID]*failure
}

// failure is a pod that could not be placed, with the number of failures.
type failure struct {
	application, namespace, name string
	times                        int
	given                        *v1.Pod // passed to the shim again, and not read since
}

func newAgain(shim *Shim) *again {
	return &again{shim: shim, work: due.New[types.UID](), failed: map[types.UID]*failure{}}
}

// taskEvents observes which pods fail, and which have ended.
func (a *again) taskEvents(handle func(any)) func(any) {
	return func(obj any) {
		event, ok := obj.(events.TaskEvent)
		if !ok {
			handle(obj)
			return
		}
		switch event.GetEvent() {
		case cache.TaskFail.String():
			a.failing(event, func() { handle(obj) })
		case cache.TaskBound.String(), cache.CompleteTask.String():
			handle(obj)
			a.forget(types.UID(event.GetTaskID()))
		default:
			handle(obj)
		}
	}
}

// failing handles the failure of a pod. A pod that the scheduler has rejected is not placed again.
func (a *again) failing(event events.TaskEvent, handle func()) {
	var task *cache.Task
	if application := a.shim.context.GetApplication(event.GetApplicationID()); application != nil {
		task = application.GetTask(event.GetTaskID())
	}
	if task == nil {
		handle()
		return
	}
	before := task.GetTaskState()
	handle()
	states := cache.TaskStates()
	if before == states.Rejected || before == states.Failed || task.GetTaskState() != states.Failed {
		return
	}
	pod := task.GetTaskPod()
	// The shim's cache has the pod on its assumed node, and would set that node in the next update of the
	// pod.
	a.shim.context.GetSchedulerCache().RemovePod(pod)
	a.later(pod, event.GetApplicationID())
}

func (a *again) later(pod *v1.Pod, application string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.failed[pod.UID]
	if known == nil {
		known = &failure{application: application, namespace: pod.Namespace, name: pod.Name}
		a.failed[pod.UID] = known
	}
	wait := min(lastAgain, firstAgain*time.Duration(math.Exp2(float64(min(known.times, 10)))))
	known.times++
	known.given = nil
	a.work.Put(pod.UID, time.Now().Add(wait))
}

func (a *again) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed[uid] != nil {
		delete(a.failed, uid)
		a.work.Drop(uid)
	}
}

// place passes the pod's present state in the API server to the shim, as if the pod were new.
func (a *again) place(uid types.UID) {
	known, given := a.takeGiven(uid)
	if known == nil {
		return
	}
	pod, err := a.read(uid, known)
	switch {
	case err != nil:
		a.give(known, given)
		slog.Warn("a pod that was not bound cannot be read", "pod", known.namespace+"/"+known.name, "error", err)
		a.work.Put(uid, time.Now().Add(firstAgain))
	case given != nil:
		// The end of the pod may have been reported before the shim had it again.
		if pod == nil {
			a.shim.context.DeletePod(given)
		}
	case pod == nil:
		a.shim.context.RemoveTask(known.application, string(uid))
		a.forget(uid)
	case a.hasFailed(known.application):
		a.forget(uid)
	default:
		slog.Info("a pod that was not bound is placed again", "pod", known.namespace+"/"+known.name, "times", known.times)
		a.shim.context.RemoveTask(known.application, string(uid))
		a.shim.context.AddPod(pod)
		a.give(known, pod)
		a.work.Put(uid, time.Now())
		a.shim.turns.Wake(known.application)
	}
}

// takeGiven returns a failed pod, and the pod that was passed to the shim again and not read since; nil for none.
func (a *again) takeGiven(uid types.UID) (*failure, *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.failed[uid]
	if known == nil {
		return nil, nil
	}
	given := known.given
	known.given = nil
	return known, given
}

func (a *again) give(known *failure, pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known.given = pod
}

// read reads the pod from the API server; nil if it has ended.
func (a *again) read(uid types.UID, known *failure) (*v1.Pod, error) {
	pod, err := a.shim.provider.GetAPIs().KubeClient.Get(known.namespace, known.name)
	switch {
	case errors.IsNotFound(err):
		return nil, nil
	case err == nil && (pod.UID != uid || utils.IsPodTerminated(pod)):
		return nil, nil
	}
	return pod, err
}

// hasFailed returns whether an application has failed, so that its pods must no longer run.
func (a *again) hasFailed(application string) bool {
	known := a.shim.context.GetApplication(application)
	if known == nil {
		return false
	}
	states := cache.ApplicationStates()
	switch known.GetApplicationState() {
	case states.Rejected, states.Failing, states.Failed, states.Killing, states.Killed:
		return true
	}
	return false
}
