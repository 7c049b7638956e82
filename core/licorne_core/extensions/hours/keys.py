"""The properties `budget.<resource>-hours` of a queue, such as ``500/week``."""

from licorne_core.config.forms import NOT_INHERITED, Family, UnusableError
from licorne_core.config.kinds import Key, Kind
from licorne_core.extensions.hours import NAME
from licorne_core.extensions.hours.messages import HoursLimit
from licorne_core.values.errors import ConfigError
from licorne_core.values.resources import parse_quantity
from licorne_core.values.windows import Window

_BEGIN, _END = "budget.", "-hours"


def read_hours(resource: str, text: str) -> HoursLimit:
    """Resource-hours of a window, such as ``500/week``."""
    amount, _, window = text.partition("/")
    try:
        return HoursLimit(resource, parse_quantity(resource, amount), Window(window.strip().lower()))
    except (ConfigError, ValueError):
        raise UnusableError("is no amount in a window, such as 500/week: hour, day, week, month") from None


PROPERTIES = ()
FAMILIES = (
    Family(
        Key(
            f"{_BEGIN}<resource>{_END}",
            Kind.AMOUNT_IN_WINDOW,
            "resource-hours that the queue and all below it may use in each hour, day, week or month of UTC: "
            "`500/week`. Once they are used up, asks for the resource wait for the next window; running "
            "allocations continue",
            "4.7",
            where=NOT_INHERITED,
        ),
        NAME,
        _BEGIN,
        _END,
        read_hours,
    ),
)
