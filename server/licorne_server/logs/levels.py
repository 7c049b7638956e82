"""Which of the server's own lines are written: a level for each logger, changed while it runs.

The name of a logger says which part of the server speaks: `core.engine`, `core.http.stream`. A
level that is given for a name is for all loggers below it as well; the most specific name counts
(spec § 12.5).
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from licorne_core.errors import shown

TOP = "core"
LEVELS = ("debug", "info", "warning", "error")
MAX_NAME = 128
MAX_GIVEN = 256
"""Loggers that may have a level of their own at a time."""

_PACKAGES = ("licorne_server.services.", "licorne_server.")
_NUMBERS = {name: logging.getLevelNamesMapping()[name.upper()] for name in LEVELS}


class LevelProblem(NamedTuple):
    """Why a level cannot be set."""

    field: str
    text: str


class Logger:
    """What structlog hands finished lines to, and the level from which on it wants them."""

    def __init__(self, name: str, threshold: int, write: Callable[[str], None]) -> None:
        """Write all lines that come."""
        self.name = name
        self.threshold = threshold
        self.debug = self.info = self.warning = self.error = self.critical = write


class Levels:
    """The levels of all loggers of the process. Any thread may log; one thread changes levels."""

    def __init__(self) -> None:
        """All loggers begin with `info`."""
        self._usual = "info"
        self._given: dict[str, str] = {}
        self._others = "info"
        self._loggers: dict[str, Logger] = {}

    def begin(self, level: str) -> None:
        """The server starts with this level, and no logger has one of its own."""
        self._usual = self._others = level
        self._given = {}
        self._derive()

    def logger(self, module: str, write: Callable[[str], None]) -> Logger:
        """The logger of a module."""
        name = name_of(module)
        logger = self._loggers[name] = Logger(name, _NUMBERS[self._level_of(name)], write)
        return logger

    def given(self) -> dict[str, str]:
        """The level of each logger that has one of its own; the empty name is for all others."""
        return {"": self._others, **dict(sorted(self._given.items()))}

    def of_others(self) -> str:
        """The level of all loggers that have none of their own."""
        return self._others

    def problem(self, name: str, level: str) -> LevelProblem | None:
        """Why the level cannot be set for the name, if it cannot."""
        if level and level not in LEVELS:
            wanted = ", ".join(LEVELS)
            return LevelProblem("level", f"level {shown(level)} is none of {wanted}")
        if len(name) > MAX_NAME:
            return LevelProblem("logger", f"logger has more than {MAX_NAME} characters")
        parts = name.split(".")
        if name and (parts[0] != TOP or not all(map(_is_word, parts))):
            text = f"logger {shown(name)} is neither {TOP} nor below it, as {TOP}.engine is"
            return LevelProblem("logger", text)
        if level and name not in self._given and len(self._given) >= MAX_GIVEN:
            return LevelProblem("logger", f"{MAX_GIVEN} loggers have levels of their own already")
        return None

    def set(self, name: str, level: str) -> None:
        """Set the level of a logger and those below it, or take it away; `problem` found none.

        Without a name it is that of all others, which goes back to that of the start.
        """
        if not name:
            self._others = level or self._usual
        elif level:
            self._given[name] = level
        else:
            self._given.pop(name, None)
        self._derive()

    def _derive(self) -> None:
        for name, logger in self._loggers.items():
            logger.threshold = _NUMBERS[self._level_of(name)]

    def _level_of(self, name: str) -> str:
        while name:
            if name in self._given:
                return self._given[name]
            name = name.rpartition(".")[0]
        return self._others


def name_of(module: str) -> str:
    """The logger's name for that of a module."""
    for package in _PACKAGES:
        if module.startswith(package):
            return f"{TOP}.{module.removeprefix(package)}"
    return module


def number_of(method: str) -> int:
    """How important a line is, from the name of the method that wrote it."""
    return _NUMBERS.get(method, logging.ERROR)


def _is_word(part: str) -> bool:
    return bool(part) and part.isascii() and part.replace("_", "").isalnum()


# A process has one log, and so one set of levels.
_levels = Levels()


def levels() -> Levels:
    """The levels of this process."""
    return _levels
