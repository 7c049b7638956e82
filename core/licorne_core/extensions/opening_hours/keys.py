"""The property `opening.hours` of a leaf, such as ``22:00-06:00`` or ``08:00-12:00,13:00-17:30``."""

from typing import Final

from licorne_core.config.forms import Form, Property, UnusableError
from licorne_core.config.kinds import Key, Kind
from licorne_core.extensions.opening_hours import NAME
from licorne_core.extensions.opening_hours.terms import MINUTE, OpeningHours, Stretch, clock_time, joined
from licorne_core.values.names import Pattern
from licorne_core.values.windows import DAY, HOUR

MOST_SPANS: Final = 16

_TIME = Pattern("[0-9]{2}:[0-5][0-9]")


def _read(text: str) -> OpeningHours | None:
    """Spans of the day, separated by commas; None for ``off``, and for all hours of the day."""
    if text.strip().lower() == "off":
        return None
    number = text.count(",") + 1
    if number > MOST_SPANS:
        raise UnusableError(f"has {number} spans, at most {MOST_SPANS} are allowed")
    found = joined([_read_span(part) for part in text.split(",")])
    return None if found == (Stretch(0, DAY),) else OpeningHours(found)


def _read_span(text: str) -> Stretch:
    begin, _, end = (part.strip() for part in text.partition("-"))
    if not (_TIME.matches(begin) and _TIME.matches(end)):
        raise UnusableError("is no list of spans of the day, such as 22:00-06:00 or 08:00-12:00,13:00-17:30")
    span = Stretch(_seconds(begin), _seconds(end))
    if span.begin >= DAY or span.end > DAY:
        raise UnusableError("has a span that does not begin from 00:00 to 23:59, or end from 00:00 to 24:00")
    if span.begin == span.end:
        raise UnusableError("has a span that ends when it begins; a whole day is 00:00-24:00")
    return span


def _seconds(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * HOUR + int(minutes) * MINUTE


def _write(hours: OpeningHours | None) -> str:
    if hours is None:
        return "off"
    return ",".join(
        f"{clock_time(begin)}-{'24:00' if end == DAY else clock_time(end)}" for begin, end in hours.parts
    )


FORM: Final = Form(
    Kind.SPANS_OF_DAY,
    _read,
    _write,
    allowed=f"`22:00-06:00` or `08:00-12:00,13:00-17:30`, at most {MOST_SPANS}; or `off`",
)


PROPERTIES = (
    Property(
        Key(
            "opening.hours",
            FORM.kind,
            "asks of the leaf start only in these hours of each day. Outside of them they wait, and running "
            "allocations continue",
            "4.2",
            FORM.write(None),
            allowed=FORM.allowed,
            where="leaf",
        ),
        NAME,
        FORM,
    ),
)
