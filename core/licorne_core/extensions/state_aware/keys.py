"""The words `stateaware` and `strict` for the order of applications, and the flag that disables the first."""

from licorne_core.config.extra import Flag
from licorne_core.extensions.state_aware import AS_FIFO, POLICY, STRICT

WORDS = tuple(("application.sort.policy", policy.value, policy) for policy in (POLICY, STRICT))
FLAGS = (
    Flag(AS_FIFO, "true: `stateaware` leaves are `fifo`, as in newer releases of the older core", "2.4"),
)
