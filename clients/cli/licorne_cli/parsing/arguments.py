"""Types of arguments that are numbers; one out of range is a usage error."""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

MAX_DIGITS = 19
"""No size and no revision has so many."""


@dataclass(frozen=True, slots=True)
class Offering:
    """The type of an argument that completion offers words for, whatever else it may be."""

    read: Callable[[str], Any]
    words: tuple[str, ...]

    def __call__(self, text: str) -> Any:
        """The value of a text."""
        return self.read(text)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def revision(text: str) -> int:
    """The number of a revision."""
    if not (text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is no revision: a number from 1 on was expected")
    return int(text)


def seconds(at_least: float) -> Callable[[str], float]:
    """A finite number of seconds, from the given one up."""

    def read(text: str) -> float:
        value = float(text)
        if not (isfinite(value) and value >= at_least):
            raise argparse.ArgumentTypeError(f"{text} is not a time of at least {at_least:g} s")
        return value

    # argparse names the type when the text is no number at all.
    read.__name__ = "seconds"
    return read


DURATION_UNITS = {
    "h": 3600,
    "m": 60,
    "s": 1,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}
DURATION_PART = r"([0-9]{1,20}[.]?[0-9]{0,20}|[.][0-9]{1,20})(h|ms|m|s|us|µs|μs|ns)"
MAX_PARTS = 20
LONGEST_SECONDS = 2**63 / 1e9
"""Of nanoseconds in 64 bits."""


def duration(text: str) -> float:
    """A length of time above zero, in seconds: ``90s``, ``5m``, ``1h30m``."""
    if not re.fullmatch(rf"\+?({DURATION_PART}){{1,{MAX_PARTS}}}", text):
        length = 0.0
    else:
        parts = re.findall(DURATION_PART, text)
        length = sum(float(number) * DURATION_UNITS[unit] for number, unit in parts)
    if not 0 < length <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is no length of time such as 90s, 5m or 1h30m")
    return length


SIZE_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def size(text: str) -> int:
    """A number of bytes: ``512Mi``, ``2Gi``, or a plain whole number."""
    digits = text.rstrip("KMGTi")
    unit = SIZE_UNITS.get(text[len(digits) :])
    if unit is None or not (digits.isascii() and digits.isdecimal() and len(digits) < MAX_DIGITS):
        known = ", ".join(filter(None, SIZE_UNITS))
        raise argparse.ArgumentTypeError(f"{text} is no size: a whole number, with {known} or none")
    return int(digits) * unit


def percent(text: str) -> int:
    """A whole number from 0 to 100."""
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100")
    return number


def show_examples(parser: argparse.ArgumentParser, examples: Sequence[tuple[str, str]]) -> None:
    """Put the examples at the end of the help."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = [f"  {command}\n      {purpose}" for command, purpose in examples]
    shown = "\n".join(["examples:", *lines])
    parser.epilog = f"{parser.epilog.rstrip()}\n\n{shown}" if parser.epilog else shown
