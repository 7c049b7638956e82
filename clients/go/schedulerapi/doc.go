// Package schedulerapi puts a shim that was written for an in-process scheduler core onto Licorne.
//
// New returns an implementation of api.SchedulerAPI, the Go interface of the published scheduler
// interface. The shim calls it and is called back as ever:
//
//	scheduler, err := schedulerapi.New(schedulerapi.Options{Target: "licorne:7070"})
//	...
//	shim.NewShimScheduler(scheduler, conf.GetSchedulerConf(), configMaps)
//
// The shim does not notice when the server restarts, or when the connection breaks: no callback says
// so. What it calls meanwhile is queued and arrives, and the server is told again all that it lost.
//
// # Predicates
//
// The server asks about many asks at a time. The shim judges from a cache that learns of an
// allocation by its callback alone. So checks are judged one after the other, and when the first
// node of a check is accepted, the shim gets the new allocation at once, before the next check. The
// ask is taken from then on. The server's own message about it is swallowed.
//
// An ask that is taken stays where it is, because the shim binds it. If the server did not get the
// answer in time, and has it pending again or on another node, it is told where the ask is. It is
// told nothing if the shim has released the ask meanwhile, removed its application, or removed the
// node.
//
// The server may rest an allocation on an older answer about the node. Such an allocation is judged
// again before the shim hears of it, and handed back if the shim refuses it by now. So whatever the
// shim gets was judged against all that it had got before.
//
// The server keeps a refusal as long as it knows of no change on the node. A shim may change its
// mind for reasons that it never tells, such as a label or a taint. So refusals are judged again
// from time to time, and the server forgets what it knows of a node that is accepted now.
//
// # Gangs
//
// A member of a task group that takes the place of a placeholder is not taken when its node is accepted:
// it runs when the placeholder has ended. The server tells of it then, and it is judged like all that
// rests on an older answer.
//
// With a timeout the server drops the asks of a gang that wait. The shim hears of that as a release. An
// ask that is taken already stays where it is, and the server is told so.
//
// # Preemption
//
// Before the server preempts it asks which victims have to go on up to ten nodes. The shim judges these
// side by side, as it does for the in-process core. The victims are released with
// PREEMPTED_BY_SCHEDULER, and run until the shim confirms that.
package schedulerapi
