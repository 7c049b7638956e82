"""The property `quota.preemption.delay` of a queue, and the switch of its partition."""

from licorne_core.config.forms import DELAY, Property
from licorne_core.config.kinds import Key, Kind
from licorne_core.extensions.quota_change import NAME, SWITCH

_DELAY = Key(
    "quota.preemption.delay",
    DELAY.kind,
    "the time from a reduction of `max` until allocations above it are preempted; off by default",
    "9.6",
    where="managed",
)
_SWITCH = SWITCH.removeprefix("preemption.")

PROPERTIES = (Property(_DELAY, NAME, DELAY, after="preemption.victim.order", unset="never", needs=SWITCH),)
SWITCHES = (
    Key(_SWITCH, Kind.FLAG, "whether allocations above a lowered maximum are preempted", "9.6", "false"),
)
