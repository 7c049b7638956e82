"""Configuration of structlog: from log calls to lines."""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress

import structlog
from structlog.typing import EventDict

from licorne_server.telemetry.logs.drops import Drops
from licorne_server.telemetry.logs.levels import Logger, levels, number_of
from licorne_server.telemetry.logs.lines import Lines
from licorne_server.telemetry.logs.names import AUDIT

_ANY = "core"
"""Logger of lines without a name."""


def set_up(
    level: str,
    lines: Lines | None = None,
    write: Callable[[str], None] | None = None,
    write_audit: Callable[[str], None] | None = None,
) -> None:
    """Send the server's own lines, from the level on, to `write`, which is stderr if not given.

    `write_audit` is for the lines about what operators ask for, if they go another way.
    """
    usual = write or _to_stderr
    audit = write_audit or usual

    def logger(name: str = _ANY) -> Logger:
        return levels().logger(name, audit if name == AUDIT else usual)

    levels().begin(level)
    structlog.configure(
        processors=[
            _wanted,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            lines or Lines(Drops()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=logger,
        cache_logger_on_first_use=True,
    )


def _wanted(logger: Logger, method: str, entry: EventDict) -> EventDict:
    """Drop lines below the level of their logger, and name the logger."""
    if number_of(method) < logger.threshold:
        raise structlog.DropEvent
    entry["logger"] = logger.name
    return entry


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # it has no reader, or it is closed
            print(line, file=sys.stderr)
