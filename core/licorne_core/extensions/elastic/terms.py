"""Tags of applications with elastic gangs, and their terms."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from licorne_core.values.errors import Refusal, Rejected, shown
from licorne_core.values.tags import MOST_DIGITS

GANG_MIN: Final = "licorne/gang-min"
"""Tag with the number of members of an elastic gang that start together."""

GANG_MAX: Final = "licorne/gang-max"
"""Tag with the maximum number of members of an elastic gang; no maximum without it."""

GANG_STEP: Final = "licorne/gang-step"
"""Tag with the number of members by which an elastic gang grows and shrinks; 1 without it."""

MAX_MEMBERS: Final = 100_000


class ElasticTerms(NamedTuple):
    """Sizes of an elastic gang, in members.

    It starts with `least`, and grows and shrinks by `step`, up to `most`, which is 0 if there is no maximum.
    """

    least: int
    most: int
    step: int


def read_members(tags: Mapping[str, str], name: str) -> int:
    """The number of members in the tag; 0 if the tag is missing.

    Raises:
        Rejected: the value is not a number from 1 to MAX_MEMBERS.
    """
    text = tags.get(name)
    if text is None:
        return 0
    is_number = len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal()
    if not is_number or not 0 < int(text) <= MAX_MEMBERS:
        text = f"tag {name}: '{shown(text)}' is no whole number from 1 to {MAX_MEMBERS}"
        raise Rejected(text, Refusal.INVALID)
    return int(text)


def read_elastic(tags: Mapping[str, str]) -> ElasticTerms | None:
    """Terms of an elastic gang; None if no tag sets any.

    Raises:
        Rejected: a value is invalid, or the tags contradict each other.
    """
    given = [name for name in (GANG_MIN, GANG_MAX, GANG_STEP) if name in tags]
    if not given:
        return None
    least, most, step = (read_members(tags, name) for name in (GANG_MIN, GANG_MAX, GANG_STEP))
    if not least:
        raise Rejected(f"tag {given[0]} needs tag {GANG_MIN}", Refusal.INVALID)
    step = step or 1
    if most and most < least:
        text = f"tag {GANG_MAX}: {most} is less than {least}, the {GANG_MIN}"
        raise Rejected(text, Refusal.INVALID)
    if most and (most - least) % step:
        text = f"tag {GANG_MAX}: {most} is not {least} members and whole steps of {step}"
        raise Rejected(text, Refusal.INVALID)
    return ElasticTerms(least, most, step)
