"""Types of arguments that are numbers; one out of range is a usage error."""

import argparse
from collections.abc import Callable
from math import isfinite


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


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


def percent(text: str) -> int:
    """A whole number from 0 to 100."""
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100")
    return number
