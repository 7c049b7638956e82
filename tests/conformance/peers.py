"""A peer: the process of a client that executes commands, and prints its events."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.matching import matches
from support.patience import PATIENCE

MAX_LINE = 2**24

Event = Mapping[str, Any]


class Failed(AssertionError):
    """A peer, or the server, did not meet an expectation of the scenario."""


class Peer:
    """One process of a peer, and all of its output."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        """Create it unstarted. Input and output are passed to `note`."""
        self.name = name
        self._note = note
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._told = 0
        self._answers: dict[int, Event] = {}
        self.events: list[Event] = []
        """All events in the order of their arrival."""
        self._taken: set[int] = set()
        """The events that have met an expectation."""
        self._came = asyncio.Event()
        self._ended = False

    async def start(self, command: Sequence[str], first: Mapping[str, Any]) -> None:
        """Start the process and let it connect."""
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
        )
        self._reading = asyncio.create_task(self._read())
        await self._write({"do": "connect", **first})

    async def tell(self, command: Mapping[str, Any]) -> Event:
        """Send a command; returns the answer."""
        self._told += 1
        number = self._told
        await self._write(command)
        await self._until(lambda: number in self._answers, f"the answer to {command}")
        return self._answers.pop(number)

    async def crash(self) -> None:
        """Let the process end at once, without a goodbye."""
        await self._write({"do": "exit"})
        await self._until(lambda: self._ended, "the end of its output")
        assert self._process is not None
        await self._process.wait()

    async def finish(self) -> None:
        """Close its input; it says goodbye and ends, and its remaining output is read."""
        assert self._process is not None
        assert self._process.stdin is not None
        if self._process.returncode is not None and self._ended:
            return
        self._process.stdin.close()
        await self._until(lambda: self._ended, "its end, as its input has ended")
        code = await self._process.wait()
        if code != 0:
            raise Failed(f"{self.name} has ended with exit code {code}")

    async def kill(self) -> None:
        """End the process in any case."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        assert self._reading is not None
        await self._reading

    # ---- Events ----

    async def expect(
        self,
        wanted: Sequence[Event],
        *,
        in_order: bool = False,
        before: Event | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Wait for events that match these patterns, none of which was expected before.

        With `before` they must precede that event, for which it waits, too. The wait takes at most `patience`
        seconds.
        """
        left = deque(wanted)
        limit: int | None = None
        seen = 0

        def look() -> bool:
            nonlocal seen, limit
            for number in range(seen, len(self.events)):
                if limit is not None:
                    break
                if number in self._taken:
                    continue
                event = self.events[number]
                if before is not None and matches(before, event):
                    limit = number
                    self._taken.add(number)
                elif self._take(event, left, in_order=in_order):
                    self._taken.add(number)
            seen = len(self.events)
            return limit is not None if before is not None else not left

        def missing() -> str:
            return ", ".join(map(str, left)) if left else f"{before}"

        await self._until(look, missing, patience)
        if left:
            raise Failed(f"{self.name}: {before} came before {missing()}")

    @staticmethod
    def _take(event: Event, left: deque[Event], *, in_order: bool) -> bool:
        """Remove the first remaining pattern that the event matches."""
        for pattern in list(left)[:1] if in_order else list(left):
            if matches(pattern, event):
                left.remove(pattern)
                return True
        return False

    def check_absent(self, patterns: Sequence[Event], since: int = 0) -> None:
        """Raise Failed if an event from that number on matches one of the patterns."""
        for event in self.events[since:]:
            for pattern in patterns:
                if matches(pattern, event):
                    raise Failed(f"{self.name}: {event} must not come ({pattern})")

    def check_once(self, pattern: Event, by: str) -> None:
        """Raise Failed if two matching events have the same value of that field."""
        seen = set()
        for event in self.events:
            if matches(pattern, event):
                if event[by] in seen:
                    raise Failed(f"{self.name}: {event} came twice, {by} was to differ")
                seen.add(event[by])

    # ---- Lines ----

    async def _write(self, line: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        text = json.dumps(line)
        self._note(f"{self.name} < {text}")
        try:
            self._process.stdin.write(text.encode() + b"\n")
            await self._process.stdin.drain()
        except ConnectionError:
            raise Failed(f"{self.name} has ended, and cannot be told {text}") from None

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            text = line.decode().rstrip()
            self._note(f"{self.name} > {text}")
            try:
                said = json.loads(text)
            except ValueError:
                self.events.append({"event": "no JSON", "line": text})
                break
            if "done" in said:
                self._answers[said["done"]] = said
            else:
                self.events.append(said)
            self._came.set()
        self._ended = True
        self._came.set()

    async def _until(
        self,
        is_so: Callable[[], bool],
        what: str | Callable[[], str],
        patience: float = PATIENCE,
    ) -> None:
        """Wait until a condition on the peer's output holds."""
        try:
            async with asyncio.timeout(patience):
                while not is_so():
                    if self._ended:
                        raise Failed(f"{self.name} has ended before {_text(what)} came")
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise Failed(f"{self.name}: not within {patience:.0f} s: {_text(what)}") from None


def _text(what: str | Callable[[], str]) -> str:
    return what if isinstance(what, str) else what()
