// Package schedulerapi connects a shim for an in-process scheduler core to Licorne.
//
// New returns an implementation of api.SchedulerAPI, the Go interface of the published scheduler interface.
// Calls of the shim and its callbacks are unchanged:
//
//	scheduler, err := schedulerapi.New(schedulerapi.Options{Target: "licorne:7070"})
//	...
//	shim.NewShimScheduler(scheduler, conf.GetSchedulerConf(), configMaps)
//
// A restart of the server or a broken connection is invisible to the shim. Its calls meanwhile are queued and
// sent later, and the server receives all lost state again.
//
// # Predicates
//
// The server sends checks for many asks together. The shim decides with its cache, which it updates only in
// callbacks. So checks are decided one after another, and when the first node of a check is accepted, the
// shim receives the new allocation at once, before the next check. From then on the ask is "taken", and the
// server's own message about it is dropped.
//
// A taken ask remains on its node, because the shim binds it. If the server did not receive the answer in
// time, and has the ask pending or on another node, the adapter sends the node of the ask, unless the shim
// has meanwhile released the ask, removed its application, or removed the node.
//
// The server may base an allocation on an older answer about the node. Such an allocation is checked again
// before the shim receives it, and handed back if the shim now refuses it. So every allocation was checked
// against all allocations that the shim received before.
//
// The server retains a refusal as long as the node does not change. A shim may decide differently later, for
// reasons that it does not send, such as a label or a taint. So refusals are checked again from time to time,
// and if the shim now accepts a node, the server drops its refusals of that node.
//
// # Gangs
//
// A member of a task group that replaces a placeholder is not taken when its node is accepted, because it
// runs only after the end of the placeholder. The server sends its allocation then, and it is checked like
// any allocation that is based on an older answer.
//
// After a timeout the server drops the pending asks of a gang, and the shim receives a release of each. An
// ask that is already taken remains on its node, which the adapter sends to the server.
//
// # Preemption
//
// Before a preemption the server asks which victims have to be stopped on up to ten nodes. The shim checks
// the nodes concurrently, as for the in-process core. The victims are released with PREEMPTED_BY_SCHEDULER,
// and run until the shim confirms the release.
package schedulerapi
