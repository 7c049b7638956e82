"""The word `stateaware` for the order of applications, and the RM's flag against it."""

from licorne_core.config.extra import Flag
from licorne_core.extensions.state_aware import AS_FIFO, POLICY

WORDS = (("application.sort.policy", POLICY.value, POLICY),)
FLAGS = (
    Flag(AS_FIFO, "true: `stateaware` leaves are `fifo`, as in newer releases of the older core", "2.4"),
)
