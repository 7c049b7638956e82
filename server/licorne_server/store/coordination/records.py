"""Members and owners as stored bytes, and the records made by claims and releases.

Records are JSON with the number of their format. A reader ignores keys that it does not know, so
that versions of the software share a store; only a change that an older reader would misread raises
the format. Records may have been written by other software, and are validated.
"""

import heapq
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import Member, MemberId, Ownership
from licorne_server.store.documents.documents import Conflict

FORMAT = 1

MAX_RECORD = 512 * 1024
"""Bytes of a record that is read, at most."""

MOST_LOADS = 500
"""RMs whose load a member publishes, the heaviest, so that no record is larger than may be read."""

MOST = 2**63 - 1
"""The largest whole number in a record."""

T = TypeVar("T")


class Unreadable(ValueError):
    """Not a record, or one of a newer format; the text gives the reason."""


def write_member(member: Member) -> bytes:
    """Encode the record of a member, without its id, which is the key."""
    heaviest = heapq.nlargest(MOST_LOADS, member.load.items(), key=lambda item: (item[1], item[0]))
    return _write(
        {
            "name": member.name,
            "address": member.address,
            "http": member.http,
            "version": member.version,
            "protocols": list(member.protocols),
            "started": member.started,
            "draining": member.draining,
            "load": dict(heaviest),
        }
    )


def read_member(member: MemberId, data: bytes) -> Member:
    """Read a member from its record.

    Raises:
        Unreadable: the bytes are no record of a member.
    """
    values = _read(data)
    return Member(
        id=member,
        name=_get(values, "name", _text),
        address=_get(values, "address", _text),
        http=_get(values, "http", _text, ""),
        version=_get(values, "version", _text, ""),
        protocols=_get(values, "protocols", _numbers, (1,)),
        started=_get(values, "started", _amount, 0.0),
        draining=_get(values, "draining", _flag, False),
        load=_get(values, "load", _load, {}),
    )


def write_ownership(record: Ownership) -> bytes:
    """Encode the record of an RM, without its revision and its id, which is the key."""
    return _write({"owner": record.owner, "epoch": record.epoch, "moved": record.moved})


def read_ownership(rm_id: RmId, data: bytes, revision: int) -> Ownership:
    """Read the ownership of an RM from its record.

    Raises:
        Unreadable: the bytes are no record of an RM.
    """
    values = _read(data)
    return Ownership(
        rm_id=rm_id,
        owner=MemberId(_get(values, "owner", _text)),
        epoch=_get(values, "epoch", _number),
        moved=_get(values, "moved", _amount, 0.0),
        revision=revision,
    )


def claimed(
    rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int, by: MemberId, now: float
) -> Ownership:
    """The record of a claim by a member at a time in unix seconds, without its revision."""
    if seen is None:
        return Ownership(rm_id=rm_id, owner=owner, epoch=at_least + 1)
    handed_on = seen.owner == by != owner
    return Ownership(
        rm_id=rm_id,
        owner=owner,
        epoch=max(seen.epoch, at_least) + 1,
        moved=now if handed_on else seen.moved,
    )


def released(owned: Ownership, by: MemberId) -> Ownership:
    """The record of a release by a member, without its revision.

    Raises:
        Conflict: the RM belongs to another member, or to none.
    """
    if not by or owned.owner != by:
        raise Conflict(f"RM {owned.rm_id!r} is released by {by!r}, and owned by {owned.owner!r}")
    return replace(owned, owner=MemberId(""), revision=0)


def _write(values: Mapping[str, object]) -> bytes:
    whole = {"format": FORMAT, **values}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _read(data: bytes) -> Mapping[str, Any]:
    if len(data) > MAX_RECORD:
        raise Unreadable(f"{len(data)} bytes, {MAX_RECORD} at most were expected")
    try:
        values = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no JSON: {error}") from None
    if not isinstance(values, dict):
        raise Unreadable(f"a JSON object was expected: {_shown(values)}")
    written = _get(values, "format", _number)
    if written > FORMAT:
        raise Unreadable(f"format {written} is newer than {FORMAT}, which this version reads")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def _get(values: Mapping[str, Any], key: str, read: Callable[[Any], T | None], default: T | None = None) -> T:
    """The value of a key, converted by `read`, which returns None for a value of another type."""
    if key not in values and default is not None:
        return default
    found = read(values.get(key))
    if found is None:
        raise Unreadable(f"{key}: {_shown(values.get(key))}")
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST else None


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # The upper bound excludes integers that are too large for a float.
    return float(value) if 0 <= value <= MOST and math.isfinite(value) else None


def _numbers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    numbers = tuple(number for number in map(_number, value) if number is not None)
    return numbers if len(numbers) == len(value) else None


def _load(value: Any) -> dict[RmId, float] | None:
    if not isinstance(value, dict):
        return None
    load = {RmId(rm_id): amount for rm_id, used in value.items() if (amount := _amount(used)) is not None}
    return load if len(load) == len(value) else None
