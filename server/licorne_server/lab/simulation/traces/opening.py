"""The formats by name, and detection of the format of files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from licorne_server.lab.simulation.traces import google, pai, swf
from licorne_server.lab.simulation.traces.files import header_of, lines_of
from licorne_server.lab.simulation.traces.job_tables import (
    HELIOS,
    HELIOS_COLUMNS,
    PHILLY,
    PHILLY_COLUMNS,
    helios,
    philly_table,
)
from licorne_server.lab.simulation.traces.model import Files, Trace, TraceError
from licorne_server.lab.simulation.traces.philly import philly

_JSON = ("[", "{")


def _philly(files: Files) -> Trace:
    return philly(files) if _first(files[0]).startswith(_JSON) else philly_table(files)


FORMATS: dict[str, Callable[[Files], Trace]] = {
    swf.KIND: swf.swf,
    PHILLY: _philly,
    HELIOS: helios,
    pai.KIND: pai.pai,
    google.KIND: google.google,
}
"""The readers of all formats, by name."""


def open_trace(paths: Sequence[Path], kind: str = "") -> Trace:
    """The trace in these files, in the format `kind`, or else in the detected format.

    A folder stands for its files of a known format.

    Raises:
        OSError: a file cannot be read.
        TraceError: no format fits, or the files have different formats.
    """
    files: list[Path] = []
    for path in paths:
        files += sorted(filter(_is_known, path.iterdir())) if path.is_dir() else [path]
    if not files:
        raise TraceError("no file of a known format in the folder", file=str(paths[0]))
    kind = kind or format_of(files[0])
    for other in files[1:]:
        found = format_of(other)
        if found != kind:
            raise TraceError(f"of the format {found}, but {files[0]} is {kind}", file=str(other))
    return FORMATS[kind](tuple(files))


def _is_known(path: Path) -> bool:
    try:
        return path.is_file() and bool(format_of(path))
    except TraceError:
        return False


def format_of(path: Path) -> str:
    """The format of a file, by its columns or its first line.

    Raises:
        TraceError: no format fits.
    """
    first = _first(path)
    if first.startswith(_JSON):
        return PHILLY
    found = set(header_of(path))
    if found.issuperset(HELIOS_COLUMNS):
        return HELIOS
    if found.issuperset(PHILLY_COLUMNS):
        return PHILLY
    if google.is_google(path):
        return google.KIND
    if pai.table_of(path):
        return pai.KIND
    if first.startswith(swf.COMMENT) or len(first.split()) == len(swf.FIELDS):
        return swf.KIND
    raise TraceError(f"in none of the formats known: {', '.join(FORMATS)}", file=str(path), line=1)


def _first(path: Path) -> str:
    """The first line that is not empty."""
    return next((text for line in lines_of(path) if (text := line.text.strip())), "")
