"""Regular expressions that take time linear in the text they are matched against.

A configuration may have hostile expressions, so none may run in an engine that backtracks. RE2 does
not backtrack, and its syntax is the one that users of the older core know.
"""

from typing import Any

import re2  # type: ignore[import-untyped]

from licorne_core.errors import ConfigError, Problem


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 writes to standard error on its own otherwise
    return options


_OPTIONS = _quiet()


class Pattern:
    """A compiled regular expression; `text` is how it was written."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Compile; a text that is no regular expression is a `ConfigError` saying why."""
        self.text = text
        try:
            self._compiled = re2.compile(text.encode("utf-8", "replace"), _OPTIONS)
        except re2.error as error:
            reason = bytes(error.args[0]).decode("utf-8", "replace")
            message = f"'{text}' is not a regular expression: {reason}"
            raise ConfigError([Problem(message=message)]) from None

    def __repr__(self) -> str:
        """``<Pattern 'dev.*'>``."""
        return f"<Pattern {self.text!r}>"

    def search(self, subject: str) -> bool:
        """Whether it matches anywhere in the subject (spec § 3.9: filters are not anchored)."""
        return self._compiled.search(subject.encode("utf-8", "replace")) is not None

    def matches(self, subject: str) -> bool:
        """Whether it matches the whole subject."""
        return self._compiled.fullmatch(subject.encode("utf-8", "replace")) is not None

    def remove(self, subject: str) -> str:
        """The subject without anything that matches; the expression must have no groups."""
        parts = self._compiled.split(subject.encode("utf-8", "replace"))
        return b"".join(parts).decode("utf-8")
