"""Answers about all RMs, made of the parts of all members.

Parts are in order of the members' names. A member that does not answer in time is left out, and the
answer names it. A request of another member is answered with the own part alone.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aiohttp import web

from licorne_server.http.places import members_of, note_missing, right_of
from licorne_server.http.stream import BY_MEMBER, CHUNK, JsonObject, Rows, Verbatim, fragments, reader_of
from licorne_server.reads.sources import SOURCES
from licorne_server.store.coordination.store import Member


class Parts(NamedTuple):
    """The parts of an answer on other members, in their order."""

    before: list[Any]
    """Those of members that come before this one."""
    after: list[Any]
    missing: list[Member]


async def parts_of(request: web.Request, read: Callable[[bytes], object]) -> Parts | None:
    """What `read` makes of the other members' answers to a request; None if there are none.

    Missing members are noted for the header. `read` raises ValueError, KeyError or TypeError for an
    answer that it cannot use.
    """
    if request.app[SOURCES].members is None or BY_MEMBER in request:
        return None
    members = members_of(request)
    with members.requests.place(reader_of(request)):
        found = await members.parts(request.rel_url.raw_path_qs, right_of(request), read)
    missing = [member for member, part in found if part is None]
    note_missing(request, missing)
    there = [(member.name < members.name, part) for member, part in found if part is not None]
    return Parts(
        [part for before, part in there if before], [part for before, part in there if not before], missing
    )


async def in_one_list(
    request: web.Request, own: JsonObject | Rows | Verbatim
) -> JsonObject | Rows | Verbatim:
    """All lists, one after another."""
    parts = await parts_of(request, _read_list)
    if parts is None:
        return own
    lists = [*map(_pieces, parts.before), fragments(own), *map(_pieces, parts.after)]
    return Verbatim(_joined(lists))


def _read_list(body: bytes) -> bytes:
    """An answer that is a list; its rows are not looked at, as there may be megabytes."""
    if not (body.startswith(b"[") and body.endswith(b"]") and body.isascii()):
        raise ValueError("a list was expected")
    return body


def _pieces(body: bytes) -> Iterator[str]:
    for start in range(0, len(body), CHUNK):
        yield body[start : start + CHUNK].decode("ascii")


def _joined(lists: Iterable[Iterator[str]]) -> Iterator[str]:
    """The JSON of one list of the items of all."""
    yield "["
    is_empty = True
    for pieces in lists:
        has_begun = False
        for piece in _inside(pieces):
            if piece and not has_begun:
                has_begun = True
                if not is_empty:
                    yield ","
            yield piece
        is_empty = is_empty and not has_begun
    yield "]"


def _inside(pieces: Iterator[str]) -> Iterator[str]:
    """The JSON of a list without its brackets; empty pieces stay."""
    held, has_begun = "", False
    for piece in pieces:
        if not piece:
            yield ""
            continue
        yield held
        held = piece if has_begun else piece[1:]
        has_begun = True
    yield held[:-1]


GAP_NANOSECONDS = 90 * 10**9
"""Age of a sample from which on it does not count. There is one in a minute."""

Series = list[tuple[int, int]]
"""Counts by their times, in nanoseconds."""


async def added_up(
    key: str, request: web.Request, own: JsonObject | Rows | Verbatim
) -> JsonObject | Rows | Verbatim:
    """The sums of the samples of all members, at the times of the member with the oldest sample."""
    assert isinstance(own, Rows), "a history is a list"

    def series(rows: Iterable[Any]) -> Series:
        return [(int(row["timestamp"]), int(row[key])) for row in rows]

    def read(body: bytes) -> Series:
        return series(json.loads(_read_list(body)))

    parts = await parts_of(request, read)
    if parts is None:
        return own
    here = series(map(own.to_json, own.items))
    every = [one for one in (here, *parts.before, *parts.after) if one]
    times: Series = min(every, key=lambda one: one[0], default=[])

    def row(time: int) -> JsonObject:
        return {"timestamp": time, key: str(sum(_at(time, one) for one in every))}

    return Rows([time for time, _ in times], row)


def _at(time: int, series: Series) -> int:
    """The latest count of a series at a time; 0 if there is none."""
    place = bisect_right(series, time, key=lambda sample: sample[0])
    if not place or series[place - 1][0] < time - GAP_NANOSECONDS:
        return 0
    return series[place - 1][1]
