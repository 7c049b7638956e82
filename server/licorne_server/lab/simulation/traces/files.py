"""Files of traces as lines, rows of CSV, and JSON objects; all are read as streams."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import IO, Any, Final, cast

from licorne_server.lab.simulation.traces.model import Lines, TraceError, TraceLine, bad_value

MAX_LINE: Final = 1024 * 1024
"""Maximum number of bytes of a line."""
MAX_OBJECT: Final = 4 * 1024 * 1024
"""Maximum number of characters of a JSON object."""
CHUNK: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b"
_NOTHING: Final = frozenset({"", "none", "null", "nan", "na", "n/a", "-"})
"""Words for an unknown value."""

csv.field_size_limit(MAX_LINE)


def _open(path: Path) -> IO[bytes]:
    """Open a file, through gzip if it is compressed."""
    stream = path.open("rb")
    if stream.peek(len(_GZIP))[: len(_GZIP)] != _GZIP:
        return stream
    stream.close()
    return cast("IO[bytes]", gzip.open(path))


def _read(stream: IO[bytes], path: Path, size: int, *, line: bool) -> bytes:
    try:
        return stream.readline(size) if line else stream.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"damaged gzip: {error}", file=str(path)) from None


def lines_of(path: Path) -> Lines:
    """The lines of a file, without their ends.

    Raises:
        OSError: it cannot be read.
        TraceError: a line is too long, or its compression is damaged.
    """
    with _open(path) as stream:
        number = 0
        while line := _read(stream, path, MAX_LINE + 1, line=True):
            number += 1
            if len(line) > MAX_LINE:
                raise TraceError(f"a line longer than {MAX_LINE} bytes", file=str(path), line=number)
            text = line.decode("utf-8", "replace")
            yield TraceLine(number, (text.removeprefix("\ufeff") if number == 1 else text).rstrip("\r\n"))


class TraceRow:
    """A row of a table by names of columns, or a JSON object."""

    __slots__ = ("_file", "_line", "_path", "_values")

    def __init__(self, values: Mapping[str, Any], file: str, line: int, path: str = "") -> None:
        """Create a row read at this position; `path` is its path within an object."""
        self._values = values
        self._file = file
        self._line = line
        self._path = path

    def text(self, *names: str) -> str:
        """The first non-empty value of the columns; empty if there is none."""
        for name in names:
            value = self._values.get(name)
            if value is not None:
                text = str(value).strip()
                if text.lower() not in _NOTHING:
                    return text
        return ""

    def number(self, *names: str, missing: float | None = None) -> float:
        """A finite number; `missing` if the value is missing.

        Raises:
            TraceError: the value is no number, or it is missing and there is no default.
        """
        text = self.text(*names)
        if not text and missing is not None:
            return missing
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise self.error(names[0], bad_value(text, "number"))
        return value

    def time(self, *names: str) -> float | None:
        """A time in unix seconds, from a number or a date in UTC; None if missing.

        Raises:
            TraceError: the value is no time.
        """
        text = self.text(*names)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            try:
                found = datetime.fromisoformat(text)
            except ValueError:
                raise self.error(names[0], bad_value(text, "time")) from None
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        if not isfinite(value):
            raise self.error(names[0], bad_value(text, "time"))
        return value

    def value(self, name: str) -> Any:
        """The value of a field, as it is in the JSON object."""
        return self._values.get(name)

    def within(self, field: str, values: Mapping[str, Any]) -> "TraceRow":
        """The row of an object within this one."""
        return TraceRow(values, self._file, self._line, f"{self._path}{field}.")

    def error(self, field: str, problem: str) -> TraceError:
        """The error for a field of the row."""
        return TraceError(problem, file=self._file, line=self._line, field=f"{self._path}{field}")


def header_of(path: Path) -> tuple[str, ...]:
    """The cells of the first row of a file, in lower case; none if it is empty."""
    for line in lines_of(path):
        return tuple(cell.strip().lower() for cell in next(csv.reader([line.text]), []))
    return ()


def rows_of(path: Path, columns: Sequence[str] = (), needed: Sequence[str] = ()) -> Iterator[TraceRow]:
    """The rows of a CSV file, with the names of columns in its first row.

    A file whose first row lacks the `needed` columns is read with these `columns`, if given.

    Raises:
        TraceError: invalid CSV, more cells than columns, or a needed column missing without `columns`.
    """
    lines, file = lines_of(path), str(path)
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for line in lines:
            last = line.number
            yield f"{line.text}\n"

    reader = csv.reader(texts(), strict=True)
    names: Sequence[str] = ()
    try:
        for cells in reader:
            if not cells:
                continue
            if not names:
                found = [cell.strip().lower() for cell in cells]
                if set(needed) <= set(found):
                    names = found
                    continue
                if not columns:
                    missing = next(name for name in needed if name not in found)
                    raise TraceError(f"no column '{missing}'", file=file, line=last)
                names = columns
            if len(cells) > len(names):
                raise TraceError(
                    f"{len(cells)} cells, but there are {len(names)} columns", file=file, line=last
                )
            yield TraceRow(dict(zip(names, cells, strict=False)), file, last)
    except csv.Error as error:
        raise TraceError(f"invalid CSV: {error}", file=file, line=last) from None


def objects_of(path: Path) -> Iterator[TraceRow]:
    """The objects of a file: the items of one JSON list, or consecutive objects.

    Raises:
        TraceError: the file contains something else, or an object is too long.
    """
    file, decoder, buffer, at, line = str(path), json.JSONDecoder(), "", 0, 1
    with _open(path) as stream:
        pending, ended = b"", False
        while True:
            at, line = _skip(buffer, at, line)
            if at < len(buffer):
                try:
                    found, end = decoder.raw_decode(buffer, at)
                except (json.JSONDecodeError, RecursionError):
                    # The object may continue beyond the buffer.
                    if ended or len(buffer) - at > MAX_OBJECT:
                        problem = (
                            "invalid JSON" if ended else f"an object longer than {MAX_OBJECT} characters"
                        )
                        raise TraceError(f"{problem}, or invalid", file=file, line=line) from None
                else:
                    if not isinstance(found, dict):
                        raise TraceError("expected an object for each job", file=file, line=line)
                    yield TraceRow(found, file, line)
                    line += buffer.count("\n", at, end)
                    at = end
                    continue
            if ended:
                return
            # Double the buffer, so that a long object is not decoded too often.
            data = _read(stream, path, max(CHUNK, len(buffer) - at), line=False)
            ended = not data
            text, pending = _decoded(pending + data, last=ended)
            buffer, at = buffer[at:] + text, 0


def _decoded(data: bytes, *, last: bool) -> tuple[str, bytes]:
    """The text of the data, without an incomplete character at its end; `last` is True for the last data."""
    whole = len(data)
    if not last:
        for back in range(1, min(4, whole) + 1):
            byte = data[whole - back]
            if byte >= 0xC0:
                whole -= back
                break
            if byte < 0x80:
                break
    return data[:whole].decode("utf-8", "replace"), data[whole:]


def _skip(buffer: str, at: int, line: int) -> tuple[int, int]:
    """The position of the next value, and its line."""
    start = at
    while at < len(buffer) and buffer[at] in " \t\r\n,[]\ufeff":
        at += 1
    return at, line + buffer.count("\n", start, at)
