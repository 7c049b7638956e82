"""The properties `fairshare.half-life` and `fairshare.weight`."""

from typing import Final

from licorne_core.config.forms import DELAY, NOT_INHERITED, Form, Property, UnusableError
from licorne_core.config.kinds import Key, Kind
from licorne_core.extensions.fair_memory import NAME, STANDARD_WEIGHT, WEIGHT
from licorne_core.values.names import Pattern

_FRACTION: Final = Pattern("[0-9]{1,9}([.][0-9]{1,9})?")


def _read_half_life(text: str) -> float:
    seconds: float = 0.0 if text.strip().lower() == "off" else DELAY.read(text)
    return seconds


def _read_weight(text: str) -> float:
    weight = float(text) if _FRACTION.matches(text) else -1.0
    if not 0 <= weight <= 1:
        raise UnusableError("is no number from 0 to 1, such as 0.5")
    return weight


_HALF_LIFE_FORM: Final = Form(
    Kind.DURATION, _read_half_life, lambda seconds: f"{seconds:g}s" if seconds else "off", allowed="or `off`"
)
_WEIGHT_FORM: Final = Form(Kind.NUMBER, _read_weight, lambda weight: f"{weight:g}", allowed="0 to 1")
_HALF_LIFE: Final = Key(
    "fairshare.half-life",
    _HALF_LIFE_FORM.kind,
    "children of the queue, or the users of a leaf with the sort policy `fair`, are ordered by their "
    "past usage, which counts half after each half-life",
    "4.9",
    _HALF_LIFE_FORM.write(0.0),
    allowed=_HALF_LIFE_FORM.allowed,
    where="any",
)
_WEIGHT: Final = Key(
    "fairshare.weight",
    _WEIGHT_FORM.kind,
    "the divisor of decayed usage; a queue of weight 0 comes last",
    "4.9",
    _WEIGHT_FORM.write(STANDARD_WEIGHT),
    allowed=_WEIGHT_FORM.allowed,
    where=NOT_INHERITED,
)

_AFTER: Final = "reservation.idle.timeout"

PROPERTIES = (
    Property(_HALF_LIFE, NAME, _HALF_LIFE_FORM, after=_AFTER, standard=0.0),
    Property(
        _WEIGHT, WEIGHT, _WEIGHT_FORM, after=_AFTER, standard=STANDARD_WEIGHT, needs="fairshare.half-life"
    ),
)
