"""How often an RM was given notice in a partition, and what it answered."""

from licorne_core.views.fields import Added

FIELDS = {
    "partition": (
        Added("notices_given", int, lambda own, _: own.given),
        # Answers: the victim may be stopped, or names a time at which it is ready.
        Added("notices_ready", int, lambda own, _: own.ready),
        Added("notices_later", int, lambda own, _: own.later),
        # Victims that were stopped at the deadline, as their RM had not answered.
        Added("notices_unanswered", int, lambda own, _: own.unanswered),
        Added("notices_withdrawn", int, lambda own, _: own.withdrawn),
    ),
}
