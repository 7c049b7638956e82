"""The boards of the other members, each followed over its feed while the page has viewers.

Messages are read row by row, as one may have megabytes. The page names a lost member immediately, but its
rows remain for a moment, so that a short interruption does not empty the page.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Set
from contextlib import aclosing, suppress
from typing import Any

import structlog

from licorne_core.values.ids import PartitionName, rm_of
from licorne_server.http.pages import API, Maker
from licorne_server.http.ui.rows import Key, finding_row
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.members import OK, Members, Unreachable
from licorne_server.reads.verdict import Finding, Severity
from licorne_server.store.coordination.store import Member, MemberId

log = structlog.get_logger("core.http.ui.mirrors")

PEER = "mirrors"
"""Peer that is charged for reading messages of other members."""

MAX_EVENT = 32 * 1024 * 1024
"""Maximum number of bytes of one message of a member."""

MAX_ROWS = 20_000
"""Maximum number of displayed rows of one member."""

SILENCE_SECONDS = 15.0
"""Seconds without a message after which a member is lost: three heartbeats."""

FIRST_SECONDS = 2.0
"""Seconds that the first look waits for the other members."""

RETRY_SECONDS = 1.0
"""Seconds between two attempts to follow a member."""

KEEP_SECONDS = 10.0
"""Seconds for which the rows of a lost member are retained."""

END = b"\n\n"

Row = dict[str, Any]


_KEYS: dict[str, Callable[[Row], Key]] = {
    "rms": lambda row: Key("rms", str(row["id"])),
    "logs": lambda row: Key("logs", str(row["rm"])),
    "findings": lambda row: Key("findings", str(row["rm"]), "", str(row["id"])),
    "partitions": lambda row: Key("partitions", str(row["rm"]), str(row["name"])),
    "queues": lambda row: Key(
        "queues", rm_of(PartitionName(str(row["partition"]))), str(row["partition"]), str(row["path"])
    ),
}
"""The key of a row, by its kind."""


class Mirror:
    """The rows of one member."""

    member: Member
    rows: dict[Key, Row]
    problem: str
    """The reason why the rows are missing or outdated; empty without a problem."""
    version: int
    """Number that rises with each change."""
    told: asyncio.Event
    """Set once rows, or a problem, have been received."""

    def __init__(self, member: Member, members: Members, time_slices: TimeSlices) -> None:
        """Begin to follow a member."""
        self.member, self.rows, self.problem, self.version = member, {}, "", 0
        self.told = asyncio.Event()
        self._members = members
        self._maker = Maker(time_slices, PEER)
        self._task = asyncio.create_task(self._follow_on(), name=f"mirror of {member.name}")

    def stop(self) -> None:
        """Stop following the member."""
        self._task.cancel()

    async def _follow_on(self) -> None:
        """Follow the member, and reconnect whenever the connection is lost."""
        while True:
            name = self.member.name
            try:
                async with aclosing(self._events()) as events:
                    async for event, data in events:
                        if event == "change":
                            await self._maker.all(self._take(data))
                            self._note("")
                problem = f"member {name} has ended its feed"
            except Unreachable as error:
                problem = str(error)
            except (LookupError, RecursionError, TypeError, ValueError) as error:
                log.warning("unusable feed of a member", member=name, reason=repr(error))
                problem = f"member {name} sends an unusable feed"
            was_well = not self.problem
            self._note(problem)
            if was_well:
                asyncio.get_running_loop().call_later(KEEP_SECONDS, self._drop)
            await asyncio.sleep(RETRY_SECONDS)

    def _drop(self) -> None:
        """Drop the rows, if the member is still lost."""
        if self.problem:
            self.rows = {}
            self.version += 1

    def _note(self, problem: str) -> None:
        self.problem = problem
        self.version += 1
        self.told.set()

    async def _events(self) -> AsyncGenerator[tuple[str, str], None]:
        """Name and data of each event.

        Raises:
            Unreachable: the member does not answer, or has stopped sending.
        """
        member, members = self.member, self._members
        async with members.answer(member, f"{API}/feed", members.own_right) as answer:
            if answer.status != OK:
                raise Unreachable(member, f"answers with the status {answer.status}")
            text, searched = bytearray(), 0
            async with aclosing(answer.chunks(pause=SILENCE_SECONDS)) as chunks:
                async for chunk in chunks:
                    text += chunk
                    while (end := text.find(END, searched)) >= 0:
                        yield _event(text[:end].decode())
                        del text[: end + len(END)]
                        searched = 0
                    searched = max(0, len(text) - 1)
                    if len(text) > MAX_EVENT:
                        raise Unreachable(member, f"sends a message of more than {MAX_EVENT} bytes")

    def _take(self, data: str) -> Iterator[None]:
        """Apply the rows of a change, one at each step."""
        rows = self.rows
        for kind, value in items_of(data):
            yield
            if kind == "whole" and value is True:
                rows = {}
            elif kind == "gone":
                rows.pop(Key(*map(str, value)), None)
            elif kind in _KEYS and len(rows) < MAX_ROWS:
                rows[_KEYS[kind](value)] = value
        self.rows = rows


def _event(text: str) -> tuple[str, str]:
    """Name and data of a server-sent event of two lines."""
    name, _, data = text.partition("\n")
    return name.removeprefix("event: "), data.removeprefix("data: ")


def items_of(text: str) -> Iterator[tuple[str, Any]]:
    """The members of a JSON object, parsed one by one; of a list, each item by itself.

    Raises:
        ValueError, IndexError: the text is no such object.
    """
    read = json.JSONDecoder().raw_decode
    position = 1
    while text[position] != "}":
        name, position = read(text, position)
        position += 1
        if text[position] == "[":
            while text[position] != "]":
                value, position = read(text, position + 1)
                yield name, value
            position += 1
        else:
            value, position = read(text, position)
            yield name, value
        if text[position] == ",":
            position += 1


class Mirrors:
    """The mirrors of all other members, while there are viewers."""

    def __init__(self, members: Members, time_slices: TimeSlices) -> None:
        """Follow no members yet."""
        self._members = members
        self._time_slices = time_slices
        self._mirrors: dict[MemberId, Mirror] = {}

    @property
    def count(self) -> int:
        """Number of members that are followed."""
        return len(self._mirrors)

    def follow(self) -> object:
        """Follow the current members; returns a value that changes with their rows."""
        others = {member.id: member for member in self._members.others()}
        for gone in self._mirrors.keys() - others.keys():
            self._mirrors.pop(gone).stop()
        for member_id, member in others.items():
            if member_id not in self._mirrors:
                self._mirrors[member_id] = Mirror(member, self._members, self._time_slices)
        return [(one, mirror.version) for one, mirror in self._mirrors.items()]

    async def first(self) -> None:
        """Wait at most `FIRST_SECONDS` until all members have sent their rows."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SECONDS):
                for mirror in list(self._mirrors.values()):
                    await mirror.told.wait()

    def rows(self, here: Set[str], most: int) -> Iterator[tuple[Key, Row]]:
        """Rows of RMs not in `here`, with up to `most` queues of each member, and rows of silent members."""
        known = set(here)
        for mirror in list(self._mirrors.values()):
            rows = {key: row for key, row in mirror.rows.items() if key.rm not in known}
            known.update(key.rm for key in rows if key.rm)
            left_out = set([key for key in rows if key.kind == "queues"][most:])
            cut = {key.partition for key in left_out}
            for key, row in rows.items():
                if key.kind == "partitions" and key.partition in cut:
                    yield key, {**row, "cut": True}
                elif key not in left_out:
                    yield key, row
            if mirror.problem or not mirror.told.is_set():
                name = mirror.member.name
                text = mirror.problem or f"member {name} has not answered yet"
                severity = Severity.DEGRADED if mirror.problem else Severity.OK
                row = finding_row(Finding(severity, "member", text, name), "")
                yield Key("findings", "", "", str(row["id"])), row

    def stop(self) -> None:
        """Stop following all members."""
        while self._mirrors:
            self._mirrors.popitem()[1].stop()
