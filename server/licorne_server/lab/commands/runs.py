"""A run of a journal for commands: its records, its moments, and the progress of its replay."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from typing import Final

from licorne_cli.failures import NotFoundError, UsageError
from licorne_cli.output.text import printable, say
from licorne_cli.parsing.parser import duration
from licorne_server.engine.journal.codec import read, runs_of
from licorne_server.engine.journal.records import Header, Record, Torn
from licorne_server.lab.commands.journals import MOMENT
from licorne_server.lab.simulation.replaying import NoRun, header_of
from licorne_server.lab.simulation.report import shown_seconds

FIRST_WORD: Final = 5.0
"""Seconds until a replay reports its progress, and between two reports."""


class Run:
    """One run of a journal."""

    header: Header

    def __init__(self, folder: Path, number: int | None) -> None:
        """Find a run; `number` is None for the last one.

        Raises:
            UsageError: the directory is no journal, or the run cannot be read from its beginning.
            NotFoundError: the journal does not have the run.
        """
        self._folder = folder
        try:
            numbers = list(runs_of(folder))
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None
        if not numbers:
            raise UsageError(f"{folder}: there is no journal in it")
        if number is not None and number not in numbers:
            runs = ", ".join(map(str, numbers[-20:]))
            raise NotFoundError(f"{folder}: there is no run {number}; there {_be(numbers)} {runs}")
        self.number = numbers[-1] if number is None else number
        try:
            self.header = header_of(self.records())
        except NoRun as error:
            raise UsageError(f"{folder}: run {self.number}: {printable(str(error))}") from None

    def records(self) -> Iterator[Record]:
        """The records of the run, from the beginning.

        Raises:
            UsageError: a file cannot be read.
        """
        try:
            yield from read(self._folder, self.number)
        except OSError as error:
            raise UsageError(f"{error.filename or self._folder}: {error.strerror}") from None

    def moment(self, text: str, option: str) -> float:
        """Read a time of the run from an option, in unix seconds; an empty text means the end.

        Raises:
            UsageError: the text is no time, or before the run.
        """
        if not text:
            return inf
        time = _moment(text, self.header.start)
        if time is None:
            raise UsageError(f"{option} {printable(text)} is no time: {MOMENT}")
        if time < self.header.start:
            begin = shown_moment(self.header.start)
            raise UsageError(f"{option} {printable(text)} is before the run, which began at {begin}")
        return time


def _be(numbers: list[int]) -> str:
    return "is" if len(numbers) == 1 else "are"


def _moment(text: str, start: float) -> float | None:
    try:
        if text.startswith("+"):
            try:
                return start + float(text) if isfinite(float(text)) else None
            except ValueError:
                return start + duration(text)
        try:
            return float(text) if isfinite(float(text)) else None
        except ValueError:
            time = datetime.fromisoformat(text)
            return None if time.tzinfo is None else time.timestamp()
    except (ValueError, argparse.ArgumentTypeError, OverflowError):
        return None


def shown_moment(time: float) -> str:
    """A time in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(time, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def torn_text(torn: Torn) -> str:
    """A sentence about the end of a torn journal."""
    return f"the journal is whole up to byte {torn.offset:,} of {printable(torn.file)}: {torn.reason}"


class Teller:
    """Prints the progress of a long replay on stderr."""

    def __init__(self, what: str, start: float) -> None:
        """Report the work `what`; `start` is the beginning of the run, in unix seconds."""
        self._what = what
        self._start = start
        self._begun = self._told = monotonic()

    def __call__(self, now: float) -> None:
        """Report, unless too early, that the replay has reached this time, in unix seconds."""
        clock = monotonic()
        if clock - self._told >= FIRST_WORD:
            self._told = clock
            passed = now - self._start
            factor = passed / (clock - self._begun)
            say(f"licorne: {self._what}: +{shown_seconds(passed)}, {factor:,.0f} times as fast as live")
