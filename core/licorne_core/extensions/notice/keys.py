"""The property `preemption.notice` of a leaf."""

from dataclasses import replace
from typing import Final

from licorne_core.config.extra import parse_duration
from licorne_core.config.forms import DELAY, Property, UnusableError
from licorne_core.config.kinds import Key
from licorne_core.extensions.notice import NAME
from licorne_core.values.windows import DAY


def _read(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or not 0 < seconds <= 365 * DAY:
        raise UnusableError("is no duration above zero, such as 2m, of at most 8760h")
    return seconds


_FORM: Final = replace(DELAY, read=_read, allowed="at most 8760h")
PROPERTIES = (
    Property(
        Key(
            "preemption.notice",
            _FORM.kind,
            "the time between notifying the RM and stopping an allocation of the queue for others; meanwhile "
            "the RM may report that it is ready. The allocation continues if its room is no longer needed. "
            "Placeholders have no notice; off by default",
            "9",
            allowed=_FORM.allowed,
            where="leaf",
        ),
        NAME,
        _FORM,
        after="preemption.minimum.runtime",
    ),
)
