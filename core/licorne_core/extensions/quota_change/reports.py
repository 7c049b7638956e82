"""Fields about lowered maxima in reports of queues and partitions."""

from licorne_core.extensions.quota_change import NAME, SWITCH
from licorne_core.extensions.quota_change.clock import is_above_max
from licorne_core.views.fields import Added, Moment, Span

FIELDS = {
    "queue": (
        Added("quota_preemption_delay", Span, lambda _, queue: queue.settings.of(NAME) or 0.0),
        # Time at which the excess over a lowered maximum is preempted, in unix seconds; 0.0 if there is none.
        Added("quota_preemption_time", Moment, lambda own, queue: own.clock.start(queue)),
        # True if usage exceeds the maximum, and victims in the queue are being stopped.
        Added("quota_preemption_running", bool, lambda _, it: bool(it.preempting) and is_above_max(it)),
    ),
    "partition": (
        Added("quota_preemption_enabled", bool, lambda _, it: it.config.switches.get(SWITCH, False)),
    ),
}
