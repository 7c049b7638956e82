"""Numbers of notices to an RM in a partition, and of its answers."""

from licorne_core.views.fields import Added

FIELDS = {
    "partition": (
        Added("notices_given", int, lambda own, _: own.given),
        # Number of answers that the victim is ready; then, of answers with a time at which it will be.
        Added("notices_ready", int, lambda own, _: own.ready),
        Added("notices_later", int, lambda own, _: own.later),
        # Number of victims that were stopped at the deadline without an answer from their RM.
        Added("notices_unanswered", int, lambda own, _: own.unanswered),
        Added("notices_withdrawn", int, lambda own, _: own.withdrawn),
    ),
}
