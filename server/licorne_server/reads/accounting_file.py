"""Resource-hours in the state directory, as text that people and spreadsheets read.

::

    accounting.csv      hours that are over, a line for each resource of a place, appended once an hour
    accounting-now.csv  the present hour, replaced as a whole twice a minute

Lines have the columns of `COLUMNS`. The resource ``#allocations`` has the number of allocations that ended
in the place of hours, and of those that were preempted. Methods wait for the disk.
"""

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TextIO

import structlog

from licorne_core.values.ids import PartitionName, bare_partition, rm_of
from licorne_server.reads.resource_hours import HOUR, MOST_DAYS, PER_HOUR, Hours, Place, Row, in_hours

log = structlog.get_logger("core.accounting")

COLUMNS = ("hour", "rm", "partition", "queue", "user", "group", "resource", "hours", "preempted_hours")
ALLOCATIONS = "#allocations"
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of the file of hours that are over: of more the oldest hours are dropped, whole."""

MOST_LINE = 8 * 1024
NAMED = 10
"""Bad lines that the log names."""

MOST_DIGITS = 12
"""Digits of a number of allocations beyond which a line is not believed."""

MOST_AMOUNT = 2**80
"""Amount times hours beyond which a line is not believed."""


class Entry(NamedTuple):
    """A row of an hour."""

    hour: int
    place: Place
    row: Row


class AccountingFile:
    """The two files of one server, or of one worker."""

    def __init__(self, folder: Path, worker: int = 0) -> None:
        """Nothing is read or written yet."""
        name = f"accounting-{worker}" if worker else "accounting"
        self._over = folder / f"{name}.csv"
        self._now = folder / f"{name}-now.csv"

    def read(self) -> tuple[Hours, int | None]:
        """All rows, and the hour that is not over, None for none; bad lines are named in the log.

        Raises:
            OSError: a file is there and cannot be read.
        """
        begun = min((entry.hour for entry in _read(self._now)), default=None)
        if begun is not None and self._over.exists():
            # The server ended while it appended the hour, which is in the other file as a whole.
            self._keep(lambda line, hour: line.endswith("\n") and hour < begun)
        hours = Hours()
        for entry in chain(_read(self._over), _read(self._now)):
            hours.add(*entry)
        return hours, begun

    def _keep(self, wanted: Callable[[str, int], bool]) -> None:
        """Drop the lines of the hours that are over that are not `wanted`, line by line."""
        new, dropped = self._over.with_suffix(".new"), 0
        with self._over.open(encoding="utf-8", errors="replace", newline="") as file, _new(new) as kept:
            kept.write(_header())
            for line in file:
                hour = _hour_of(line.split(","))
                if hour is not None and wanted(line, hour):
                    kept.write(line)
                else:
                    dropped += 1
        if dropped > 1:
            new.replace(self._over)
        else:
            new.unlink()

    def replace_now(self, hour: int, rows: Mapping[Place, Row]) -> None:
        """Write the present hour.

        Raises:
            OSError: the disk refuses it; the former state stays.
        """
        _replace(self._now, _text(hour, rows))

    def append(self, hour: int, rows: Mapping[Place, Row]) -> None:
        """Append an hour that is over, after it was written as the present one.

        Raises:
            OSError: the disk refuses it.
        """
        size = self._over.stat().st_size if self._over.exists() else 0
        try:
            with self._over.open("a", encoding="utf-8", newline="") as file:
                file.write(("" if size else _header()) + _text(hour, rows, header=False))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # The hour is appended again, and must not count twice.
            with suppress(OSError):
                os.truncate(self._over, size)
            raise
        try:
            self._shorten(hour)
        except OSError as error:
            log.warning("accounting not shortened", file=str(self._over), error=str(error))

    def _shorten(self, now: int) -> None:
        """Drop the oldest hours, whole, if the file is too long or has older ones than are kept."""
        oldest = now - MOST_DAYS * 24 * HOUR
        _, first = next(_lines(self._over), (0, []))
        size = self._over.stat().st_size
        if size > MOST_BYTES:
            # A quarter, so that it is not rewritten every hour.
            with self._over.open(encoding="utf-8", errors="replace", newline="") as file:
                file.seek(size - MOST_BYTES * 3 // 4)
                file.readline()
                oldest = (_hour_of(file.readline().split(",")) or now) + 1
        elif (_hour_of(first) or oldest) >= oldest:
            return
        self._keep(lambda _, hour: hour >= oldest)


def _hour_of(cells: list[str]) -> int | None:
    """The hour of a line; None for none."""
    with suppress(ValueError, IndexError):
        return int(datetime.fromisoformat(cells[0]).timestamp())
    return None


def _header() -> str:
    return ",".join(COLUMNS) + "\r\n"


def _text(hour: int, rows: Mapping[Place, Row], *, header: bool = True) -> str:
    """The lines of an hour."""
    buffer = StringIO(newline="")
    lines = csv.writer(buffer)
    if header:
        lines.writerow(COLUMNS)
    begin = datetime.fromtimestamp(hour, UTC).isoformat().replace("+00:00", "Z")
    for place, row in rows.items():
        name = PartitionName(place.partition)
        where = (begin, rm_of(name), bare_partition(name), place.queue, place.user, place.group)
        lost = in_hours(row.lost)
        for resource, hours in {**dict.fromkeys(lost, 0.0), **in_hours(row.used)}.items():
            lines.writerow((*where, resource, repr(hours), repr(lost.get(resource, 0.0))))
        if row.ended:
            lines.writerow((*where, ALLOCATIONS, row.ended, row.preempted))
    return buffer.getvalue()


def _replace(path: Path, text: str) -> None:
    """Replace a file: it has the old or the new text, whenever the process ends."""
    new = path.with_suffix(".new")
    with _new(new) as file:
        file.write(text)
    new.replace(path)


@contextmanager
def _new(path: Path) -> Iterator[TextIO]:
    """A new file, which is on the disk in the end."""
    with path.open("w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line but the header, with its number; none without a file."""
    try:
        file = path.open(encoding="utf-8", errors="replace", newline="")
    except FileNotFoundError:
        return
    with file:
        bounded = iter(lambda: file.readline(MOST_LINE), "")
        for number, line in enumerate(bounded, 1):
            cells = next(csv.reader([line.rstrip("\r\n")]), [])
            if number > 1 or tuple(cells) != COLUMNS:
                yield number, cells


def _read(path: Path) -> Iterator[Entry]:
    """The rows of a file; bad lines are named."""
    bad = 0
    for number, cells in _lines(path):
        try:
            yield _entry(cells)
        except (ValueError, IndexError, csv.Error) as error:
            bad += 1
            if bad <= NAMED:
                log.warning("bad line of accounting", file=str(path), line=number, reason=str(error))
    if bad > NAMED:
        log.warning("more bad lines of accounting", file=str(path), lines=bad)


def _entry(cells: list[str]) -> Entry:
    """The row of a line.

    Raises:
        ValueError: the line is none of these files.
    """
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} columns, {len(COLUMNS)} were expected")
    hour = _hour_of(cells)
    if hour is None or hour % HOUR:
        raise ValueError(f"{cells[0][:40]!r} is no hour")
    _, rm_id, partition, queue, user, group, resource, hours, lost = cells
    place = Place(f"[{rm_id}]{partition}", queue, user, group)
    if resource == ALLOCATIONS:
        return Entry(hour, place, Row(ended=_count(hours), preempted=_count(lost)))
    used, gone = _amount(hours), _amount(lost)
    return Entry(hour, place, Row({resource: used}, lost={resource: gone} if gone else {}))


def _count(text: str) -> int:
    """A number of allocations."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise ValueError(f"{text[:40]!r} is no number of allocations")
    return int(text)


def _amount(text: str) -> int:
    """Amount times microseconds of a number of amount times hours."""
    value = float(text)
    if not abs(value) < MOST_AMOUNT:
        raise ValueError(f"{text[:40]!r} is no number of hours")
    return round(value * PER_HOUR)
