"""The configurations that an RM had, the last of which is in force. Values, never changed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from licorne_core.config.schema import Configuration
from licorne_core.ids import RmId

MAX_REVISIONS = 50
"""Revisions of an RM that are kept."""

MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of the different texts of one RM that are kept: two of the largest."""


class Source(Enum):
    """Who brought a configuration."""

    REGISTRATION = "registration"
    RM = "rm"
    OPERATOR = "operator"
    FILE = "file"
    BUILT_IN = "built-in"
    ROLLBACK = "rollback"


APPLIED = frozenset({Source.OPERATOR, Source.ROLLBACK})
"""What stays in force when the RM registers again and says nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A configuration that came into force for an RM.

    `number` counts from 1. `time` is when it came into force, in nanoseconds since 1970. `by` is
    who brought it, as far as that is known. `size` is that of the text in bytes of UTF-8.
    """

    number: int
    source: Source
    time: int
    by: str
    comment: str
    checksum: str
    text: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """The revisions of one RM that are kept, the oldest first.

    `said` is the text that the RM said last, when it registered or updated its configuration
    itself; empty if it never said any.
    """

    rm_id: RmId
    said: str = ""
    kept: tuple[Revision, ...] = ()

    @property
    def current(self) -> Revision:
        """The one in force."""
        return self.kept[-1]

    @property
    def is_applied(self) -> bool:
        """Whether the one in force was applied, and stays until another one comes."""
        return bool(self.kept) and self.current.source in APPLIED

    @property
    def size(self) -> int:
        """Bytes of all texts that are kept, each counted once."""
        return len(self.said) + _bytes_of(self.kept)

    def goes_on(self, text: str) -> bool:
        """Whether an applied configuration stays in force if the RM registers with this text."""
        return self.is_applied and text in ("", self.said, self.current.text)

    def saying(self, text: str) -> "Revisions":
        """The same after the RM has said the text. An empty text says nothing."""
        return replace(self, said=text) if text else self

    def find(self, number: int) -> Revision | None:
        """The revision of that number, if it is kept."""
        return next((revision for revision in self.kept if revision.number == number), None)

    def adding(
        self, config: Configuration, source: Source, *, time: int, by: str, comment: str = ""
    ) -> "Revisions":
        """The same with one more revision, which is in force; the oldest may be kept no more."""
        text = next((old.text for old in self.kept if old.text == config.text), config.text)
        revision = Revision(
            number=self.current.number + 1 if self.kept else 1,
            source=source,
            time=time,
            by=by,
            comment=comment,
            checksum=config.checksum,
            text=text,
            size=len(text.encode(errors="replace")),
        )
        kept = (*self.kept, revision)[-MAX_REVISIONS:]
        while len(kept) > 1 and _bytes_of(kept) > MAX_TEXT_BYTES:
            kept = kept[1:]
        return replace(self, kept=kept)


def _bytes_of(revisions: Iterable[Revision]) -> int:
    """Bytes of the different texts."""
    return sum({revision.text: revision.size for revision in revisions}.values())
