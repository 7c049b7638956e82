"""The property `preemption.reclaim` of a queue: how far its asks may preempt."""

from typing import Final

from licorne_core.config.forms import Property, one_of
from licorne_core.config.kinds import Key

RECLAIM: Final = "reclaim"
"""Setting of a leaf: True if its asks may preempt up to its fair share, False if only up to a guarantee."""

_FORM: Final = one_of({"guaranteed": False, "fair-share": True})

PROPERTIES = (
    Property(
        Key(
            "preemption.reclaim",
            _FORM.kind,
            "the extent to which asks of the queue preempt: `guaranteed` while a queue stays within its "
            "guarantee; `fair-share` also while the queue stays within its fair share, and victims' queues "
            "keep theirs",
            "9",
            _FORM.write(False),
            _FORM.choices,
            where="leaf",
        ),
        RECLAIM,
        _FORM,
        after="preemption.victim.order",
        standard=False,
    ),
)
