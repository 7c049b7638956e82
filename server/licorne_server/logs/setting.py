"""How the server's own log calls become lines."""

import logging
import sys
from collections.abc import Callable

import structlog

from licorne_server.logs.drops import Drops
from licorne_server.logs.lines import Lines


class _Logger:
    """What structlog hands finished lines to, whatever their level."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def set_up(
    level: str, lines: Lines | None = None, write: Callable[[str], None] | None = None
) -> None:
    """Send the server's own lines, from the level on, to `write`, which is stderr if not given."""
    logger = _Logger(write or _to_stderr)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            lines or Lines(Drops()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: logger,
        cache_logger_on_first_use=True,
    )


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)
