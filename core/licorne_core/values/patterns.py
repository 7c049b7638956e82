"""Regular expressions that take time linear in the text they are matched against.

A configuration may have hostile expressions, so none may run in an engine that backtracks. RE2 does
not backtrack, and its syntax is the one that users of the older core know.
"""

from typing import Any

import re2  # type: ignore[import-untyped]

from licorne_core.values.errors import ConfigError, Problem

MAX_INSTRUCTIONS = 4_096
"""Most instructions of a compiled expression; matching takes time in proportion."""

_MAX_MEMORY = 2 * 1024 * 1024
"""Bytes for one expression. Compiling gives up when they are used, so that it is short."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 writes to standard error on its own otherwise
    options.max_mem = _MAX_MEMORY
    return options


_OPTIONS = _options()
_GAVE_UP = "pattern too large"


class ProgramTooLarge(ConfigError):
    """An expression that is short as text, and too long when compiled."""


class Pattern:
    """A compiled regular expression.

    `text` is its source, `size` its number of compiled instructions.
    """

    __slots__ = ("_compiled", "size", "text")

    def __init__(self, text: str) -> None:
        """Compile, for both directions, so that no match has to.

        A text that is no regular expression is a `ConfigError` saying why, one that is compiled to
        more than `MAX_INSTRUCTIONS` a `ProgramTooLarge`.
        """
        self.text = text
        try:
            self._compiled = re2.compile(text.encode("utf-8", "replace"), _OPTIONS)
        except re2.error as error:
            reason = bytes(error.args[0]).decode("utf-8", "replace")
            if reason.startswith(_GAVE_UP):
                raise _too_large(text, f"more than {MAX_INSTRUCTIONS}") from None
            message = f"'{text}' is not a regular expression: {reason}"
            raise ConfigError([Problem(message=message)]) from None
        self.size = max(self._compiled.programsize, self._compiled.reverseprogramsize)
        if self.size > MAX_INSTRUCTIONS:
            raise _too_large(text, str(self.size))

    def __repr__(self) -> str:
        """``<Pattern 'dev.*'>``."""
        return f"<Pattern {self.text!r}>"

    def search(self, subject: str) -> bool:
        """True if it matches anywhere in the subject (spec § 3.9: filters are not anchored)."""
        return self._compiled.search(subject.encode("utf-8", "replace")) is not None

    def matches(self, subject: str) -> bool:
        """True if it matches the whole subject."""
        return self._compiled.fullmatch(subject.encode("utf-8", "replace")) is not None

    def remove(self, subject: str) -> str:
        """The subject without anything that matches; the expression must have no groups."""
        parts = self._compiled.split(subject.encode("utf-8", "replace"))
        return b"".join(parts).decode("utf-8")


def _too_large(text: str, size: str) -> ProgramTooLarge:
    message = (
        f"'{text}' is too large a regular expression: it has {size} instructions, "
        f"at most {MAX_INSTRUCTIONS} are allowed"
    )
    return ProgramTooLarge([Problem(message=message)])
