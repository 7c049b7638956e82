"""The properties `application.unschedasks.backoff` and its delay."""

from typing import Final

from licorne_core.config.forms import DELAY as DELAY_FORM
from licorne_core.config.forms import Property, whole
from licorne_core.config.kinds import Key
from licorne_core.extensions.back_off import DELAY, NAME, STANDARD_DELAY

_UINT64_MAX: Final = 2**64 - 1
_ASKS = whole(0, _UINT64_MAX)
_THRESHOLD = Key(
    "application.unschedasks.backoff",
    _ASKS.kind,
    "the number of asks in a row without a fitting node after which an application backs off; 0 is off",
    "8.3",
    _ASKS.write(0),
    _ASKS.choices,
    _ASKS.allowed,
    where="leaf",
)
_DELAY = Key(
    "application.unschedasks.backoff.delay",
    DELAY_FORM.kind,
    "the duration of the back-off",
    "8.3",
    DELAY_FORM.write(STANDARD_DELAY),
    DELAY_FORM.choices,
    DELAY_FORM.allowed,
    where="leaf",
)

PROPERTIES = (
    Property(_THRESHOLD, NAME, _ASKS, after="priority.policy", standard=0, unset="off"),
    Property(
        _DELAY,
        DELAY,
        DELAY_FORM,
        after="priority.policy",
        standard=STANDARD_DELAY,
        unset=f"{STANDARD_DELAY:g}s",
        needs="application.unschedasks.backoff",
    ),
)
