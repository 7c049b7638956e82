"""Revisions of an RM's configuration, the last of which is in force: immutable values, and stored form.

The first line of a stored record is the SHA-256 of the remaining lines, a JSON document. Texts are
stored outside the record, by their SHA-256. So are extra configurations, as JSON, which records of
earlier versions do not have.
"""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256
from typing import Any

from licorne_core.config.schema import Configuration
from licorne_core.messages.operators import Marks
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.store.configurations.marks import Mark, decode_mark, encode_mark, marks_of_core

MAX_REVISIONS = 50
"""Revisions retained per RM, at most."""

MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of distinct texts retained per RM, at most: two of the largest, extra configurations
included. The text in force is always retained."""


class Source(Enum):
    """Source of a configuration."""

    REGISTRATION = "registration"
    RM = "rm"
    OPERATOR = "operator"
    FILE = "file"
    BUILT_IN = "built-in"
    ROLLBACK = "rollback"


APPLIED = frozenset({Source.OPERATOR, Source.ROLLBACK})
"""Sources that stay in force when the RM registers again with its old text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A configuration that came into force for an RM.

    `number` counts from 1. `time` is the time of coming into force, in nanoseconds since 1970. `by`
    is the author, if known. `size` is the size of the text in bytes of UTF-8. `extra` is the extra
    configuration that was in force with it, as written by `extra_text`. `instead_of` is the number
    of an applied revision that had become unusable; 0 for none.
    """

    number: int
    source: Source
    time: int
    by: str
    comment: str
    checksum: str
    text: str
    size: int
    extra: str = ""
    instead_of: int = 0

    @property
    def extra_config(self) -> dict[str, str]:
        """Extra configuration that was in force with it."""
        return extra_of(self.extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """Retained revisions of one RM, the oldest first, and the marks of operators in its partitions.

    `said` is the last text of the RM itself, from a registration or an update; empty for none.
    `said_extra` is the extra configuration of the same message.
    """

    rm_id: RmId
    said: str = ""
    said_extra: str = ""
    kept: tuple[Revision, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def current(self) -> Revision:
        """The revision in force."""
        return self.kept[-1]

    @property
    def is_applied(self) -> bool:
        """True if the revision in force was applied, and stays until it is replaced."""
        return bool(self.kept) and self.current.source in APPLIED

    @property
    def size(self) -> int:
        """Bytes of all retained texts, each counted once."""
        return len(self.said) + len(self.said_extra) + _bytes_of(self.kept)

    @property
    def operator_marks(self) -> Marks:
        """The marks, for the core."""
        return marks_of_core(self.marks)

    def marking(self, mark: Mark, *, on: bool) -> "Revisions":
        """With a mark, which replaces an earlier one, or without."""
        others = tuple(other for other in self.marks if other.key != mark.key)
        return replace(self, marks=(*others, mark) if on else others)

    def without_marks(self, applications: Container[tuple[PartitionName, str]]) -> "Revisions":
        """Without the marks of these applications, each of which has ended."""
        over = {mark for mark in self.marks if (mark.partition, mark.name) in applications}
        kept = (mark for mark in self.marks if not (mark in over and mark.kind.is_of_application))
        return replace(self, marks=tuple(kept))

    def marked_as(self, other: "Revisions | None") -> "Revisions":
        """With the marks of others, of which some may have ended meanwhile."""
        return self if other is None or other.marks == self.marks else replace(self, marks=other.marks)

    def goes_on(self, text: str) -> bool:
        """True if an applied configuration stays in force when the RM registers with this text."""
        return self.is_applied and text in ("", self.said, self.current.text)

    def extra_after(self, extra: str) -> str:
        """Extra configuration in force if an applied one stays in force and the RM sends `extra`."""
        return self.current.extra if extra in ("", self.said_extra) else extra

    def saying(self, text: str, extra: str = "") -> "Revisions":
        """Revisions with new texts of the RM itself. An empty text changes nothing."""
        return replace(self, said=text or self.said, said_extra=extra or self.said_extra)

    def find(self, number: int) -> Revision | None:
        """Revision with a number; None if not retained."""
        return next((revision for revision in self.kept if revision.number == number), None)

    def adding(
        self,
        config: Configuration,
        source: Source,
        *,
        time: int,
        by: str,
        comment: str = "",
        extra: str = "",
        instead_of: int = 0,
    ) -> "Revisions":
        """Revisions with one more revision, in force; the oldest may be dropped."""
        text = next((old.text for old in self.kept if old.text == config.text), config.text)
        extra = next((old.extra for old in self.kept if old.extra == extra), extra)
        revision = Revision(
            number=self.current.number + 1 if self.kept else 1,
            source=source,
            time=time,
            by=by,
            comment=comment,
            checksum=config.checksum,
            text=text,
            size=len(text.encode(errors="replace")),
            extra=extra,
            instead_of=instead_of,
        )
        kept = (*self.kept, revision)[-MAX_REVISIONS:]
        while len(kept) > 1 and _bytes_of(kept) > MAX_TEXT_BYTES:
            kept = kept[1:]
        return replace(self, kept=kept)


def extra_text(extra_config: Mapping[str, str]) -> str:
    """Canonical text of an extra configuration; empty for none."""
    if not extra_config:
        return ""
    return json.dumps(dict(extra_config), ensure_ascii=False, sort_keys=True)


def extra_of(text: str) -> dict[str, str]:
    """Extra configuration in a text of `extra_text`."""
    return json.loads(text) if text else {}


def _bytes_of(revisions: Iterable[Revision]) -> int:
    """Bytes of all distinct texts."""
    texts: dict[str, int] = {}
    for revision in revisions:
        texts[revision.text] = revision.size
        if revision.extra and revision.extra not in texts:
            texts[revision.extra] = len(revision.extra.encode(errors="replace"))
    return sum(texts.values())


FORMAT = 1


class Damaged(Exception):
    """A damaged record; the text gives the damage."""


def digest_of(data: bytes) -> str:
    """SHA-256 in lower-case hex."""
    return sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Key of a stored text."""
    return digest_of(text.encode())


def texts_of(revisions: Revisions) -> dict[str, str]:
    """Texts of the revisions, by digest."""
    texts = {revisions.said, revisions.said_extra}
    for revision in revisions.kept:
        texts |= {revision.text, revision.extra}
    return {text_digest(text): text for text in texts if text}


def encode(revisions: Revisions) -> bytes:
    """Record of the revisions."""
    document = {
        "format": FORMAT,
        "rm_id": revisions.rm_id,
        "said": _named(revisions.said),
        "said_extra": _named(revisions.said_extra),
        "revisions": [
            {
                "revision": revision.number,
                "source": revision.source.value,
                "time": revision.time,
                "by": revision.by,
                "comment": revision.comment,
                "checksum": revision.checksum,
                "text": text_digest(revision.text),
                "extra": _named(revision.extra),
                "instead_of": revision.instead_of,
            }
            for revision in revisions.kept
        ],
        "marks": [encode_mark(mark) for mark in revisions.marks],
    }
    body = json.dumps(document, indent=1).encode() + b"\n"
    return digest_of(body).encode() + b"\n" + body


def needed_texts(data: bytes) -> set[str]:
    """Digests of the texts that a record needs.

    Raises:
        Damaged: the data is not a record.
    """
    document = _document(data)
    try:
        needed = {str(document["said"]), str(document.get("said_extra", ""))}
        for item in document["revisions"]:
            needed |= {str(item["text"]), str(item.get("extra", ""))}
        return needed - {""}
    except (KeyError, TypeError) as error:
        raise Damaged(f"something is missing: {error}") from None


def decode(data: bytes, texts: Mapping[str, str]) -> Revisions:
    """Revisions of a record; `texts` holds its texts by digest.

    Raises:
        Damaged: the data is not a record, or a text is missing.
    """
    document = _document(data)
    try:
        revisions = Revisions(
            rm_id=RmId(str(document["rm_id"])),
            said=_text(document["said"], texts),
            said_extra=_text(document.get("said_extra", ""), texts),
            kept=tuple(_revision(item, texts) for item in document["revisions"]),
            marks=tuple(map(decode_mark, document.get("marks", ()))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"something is missing or wrong: {error}") from None
    numbers = [revision.number for revision in revisions.kept]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise Damaged(f"the revisions are not in order: {numbers}")
    return revisions


def _revision(item: Mapping[str, Any], texts: Mapping[str, str]) -> Revision:
    text = texts[item["text"]]
    return Revision(
        number=int(item["revision"]),
        source=Source(item["source"]),
        time=int(item["time"]),
        by=str(item["by"]),
        comment=str(item["comment"]),
        checksum=str(item["checksum"]),
        text=text,
        size=len(text.encode()),
        extra=_text(item.get("extra", ""), texts),
        instead_of=int(item.get("instead_of", 0)),
    )


def _text(digest: str, texts: Mapping[str, str]) -> str:
    """The text with a digest; empty for none."""
    return texts[digest] if digest else ""


def _named(text: str) -> str:
    """Key of a stored text; empty for none."""
    return text_digest(text) if text else ""


def _document(data: bytes) -> Any:
    """JSON document of a record, after the check of its digest."""
    first, _, body = data.partition(b"\n")
    if first.decode("ascii", "replace") != digest_of(body):
        raise Damaged("it is not what was written: the checksum in its first line is another one")
    document = json.loads(body)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Damaged(f"it is not of format {FORMAT}: another version has written it")
    return document
