"""Acts of operators in words: the operator, the time, and the reason."""

import math
import time
from datetime import UTC, datetime

from licorne.v1.state_pb2 import NodeDrain, OperatorMark
from licorne_cli.output.text import NOTHING, human_text, printable

DAY = 86_400


def age(nanoseconds: int) -> str:
    """The age of a time, in one unit: ``42s``, ``3h``; a dash for never."""
    if not nanoseconds:
        return NOTHING
    seconds = max(0, int(time.time() - nanoseconds / 1e9))
    for unit, size in (("d", DAY), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def length(seconds: float) -> str:
    """A positive duration in the format of options, in whole seconds: ``1h30m``."""
    parts, left = "", math.ceil(seconds)
    for unit, size in (("d", DAY), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        parts += f"{number}{unit}" if number else ""
    return parts


def marked(mark: OperatorMark) -> str:
    """The operator and the age of an act; a dash if there is none."""
    return f"{printable(mark.by) or 'operator'} {age(mark.time)}" if mark.time else NOTHING


def told(mark: OperatorMark) -> str:
    """The operator, the age and the reason, to be appended to the act."""
    why = f": {human_text(mark.message)}" if mark.message else ""
    return f"by {printable(mark.by) or 'an operator'} {age(mark.time)} ago{why}"


def marked_with_reason(mark: OperatorMark) -> str:
    """Operator, age and reason for a cell; a dash if there is none."""
    return told(mark) if mark.time else NOTHING


def drain_text(drain: NodeDrain) -> str:
    """``7 of 20 left, until 03:40:00Z``, ``7 of 20 left, none stopped`` or ``done``; a dash if none."""
    if not drain.start_time:
        return NOTHING
    if not drain.remaining:
        return "done"
    left = f"{drain.remaining:,} of {drain.allocations:,} left"
    if not drain.deadline:
        return f"{left}, none stopped"
    end = datetime.fromtimestamp(drain.deadline / 1e9, UTC)
    form = "%H:%M:%SZ" if drain.deadline - drain.start_time < DAY * 10**9 else "%Y-%m-%d %H:%MZ"
    return f"{left}, until {end.strftime(form)}"
