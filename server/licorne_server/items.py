"""Items of requests as bytes: how large they may be, and what of them can be done without."""

from collections.abc import Container, Mapping

from licorne_server.caps import MAX_ENTRIES, MAX_ID, MAX_ITEM_BYTES, size_problem
from licorne_server.wire import skim, text_of

_HARMLESS_BYTES = 64 * 1024
"""Smaller items are parsed uncounted: they cannot hold many entries."""

_SKIMMED = 2 * MAX_ENTRIES
"""Fields of an item that are looked at in search of some; 8 MiB of labels have fewer."""

_KEY = 1
"""The field of a map's entry that holds its key."""


class BadItem(Exception):
    """An item that cannot be taken; the text is the reason that its RM reads."""


def check(problem: str) -> None:
    """Refuse the item if there is a problem."""
    if problem:
        raise BadItem(problem)


def check_item(what: str, raw: bytes, nested: Container[int] = ()) -> None:
    """Refuse an item that is too large to be parsed, or has too many entries.

    `nested` are the fields that hold a message with entries of its own.
    """
    if len(raw) <= _HARMLESS_BYTES:
        return
    check(size_problem(what, len(raw), MAX_ITEM_BYTES))
    count, inner = skim(raw, nested, MAX_ENTRIES)
    for _, _, value, end in inner:
        count += skim(raw[value:end], (), MAX_ENTRIES)[0]
    if count > MAX_ENTRIES:
        raise BadItem(f"{what} has more than {MAX_ENTRIES} entries")


def texts_of(raw: bytes, limits: Mapping[int, int]) -> list[str]:
    """The texts in some fields of an unparsed item, each cut off at the limit of its field."""
    found = dict.fromkeys(limits, "")
    for number, _, value, end in skim(raw, limits, _SKIMMED)[1]:
        found[number] = text_of(number, raw[value:end])[: limits[number]]
    return list(found.values())


def without_entries(raw: bytes, number: int, kept: Container[str]) -> bytes:
    """The item without the entries of a map of texts, but for the keys that are kept.

    A key that is kept is given in lower case. An entry that is longer than names are goes as well.
    An item of very many entries is returned as it is.
    """
    count, entries = skim(raw, (number,), _SKIMMED)
    if count > _SKIMMED:
        return raw
    parts: list[bytes] = []
    rest = 0
    for _, begin, value, end in entries:
        if end - value > MAX_ID or _key_of(raw[value:end]) not in kept:
            parts.append(raw[rest:begin])
            rest = end
    return b"".join((*parts, raw[rest:]))


def _key_of(entry: bytes) -> str:
    """The key of a map's entry in lower case."""
    keys = [entry[value:end] for _, _, value, end in skim(entry, (_KEY,))[1]]
    return text_of(_KEY, keys[-1]).lower() if keys else ""
