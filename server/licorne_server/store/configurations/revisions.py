"""Revisions of an RM's configuration, the last of which is in force, and the marks of operators.

Both are immutable values with a stored form. Marks are attached to nodes, queues and applications of an RM,
and can be converted for the core.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from licorne_core.config.schema import Configuration
from licorne_core.messages.operators import Marks, OperatorMark
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.store.documents.documents import TooLarge
from licorne_server.store.documents.encoding import Count, Newer, Priority, encode, fields_in, made, plain
from licorne_server.store.documents.owned import Damaged, DocumentForm, pack, unpack
from licorne_server.wire.features import table

MAX_MARKS = 10_000
"""Maximum number of operators' marks retained for an RM."""


class MarkKind(Enum):
    """Kind of an object that an operator has marked."""

    NODE = "node"
    """A cordoned node."""
    QUEUE = "queue"
    """A stopped queue."""
    HOLD = "hold"
    """A held application."""
    CHANGE = "change"
    """An application with another priority or queue."""

    @property
    def is_of_application(self) -> bool:
        """True if the mark is dropped with its application."""
        return self in (MarkKind.HOLD, MarkKind.CHANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An operator's act on a node, queue or application.

    `partition` is the normalized name of its partition. `by` is the operator, if known, `time` the
    nanoseconds since 1970, `why` the operator's message. A change has the new priority of the application's
    asks, or None for their own priorities, and the new queue, or an empty text. A drained node has the terms
    of its `drain`, a dataclass.
    """

    kind: MarkKind
    partition: PartitionName
    name: str
    by: str = ""
    time: Count = 0
    why: str = ""
    priority: Priority | None = None
    queue: str = ""
    drain: Any = None

    @property
    def operator_mark(self) -> OperatorMark:
        """The author, time and reason, for the core."""
        return OperatorMark(by=self.by, time=self.time / 1e9, message=self.why)

    @property
    def key(self) -> tuple[MarkKind, PartitionName, str]:
        """Identity of the marked object."""
        return self.kind, self.partition, self.name


def marks_of_core(marks: Sequence[Mark]) -> Marks:
    """Convert marks for the core."""
    return {extension: of(marks) for extension, of in table("MARKED").items()}


MAX_REVISIONS = 50
"""Maximum number of revisions retained for an RM."""

MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes of distinct texts retained for an RM, extra configurations included: two texts of
the largest size fit. The text in force is always retained."""


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

    `number` counts from 1. `time` is the time at which it came into force, in nanoseconds since 1970. `by` is
    the author, if known. `size` is the size of the text in bytes of UTF-8. `extra` is the extra configuration
    that was in force with it, as written by `extra_text`. `instead_of` is the number of an applied revision
    that had become unusable; 0 if there is none.
    """

    number: Count
    source: Source
    time: Count
    by: str
    comment: str
    checksum: str
    text: str
    size: Count
    extra: str = ""
    instead_of: Count = 0

    @property
    def extra_config(self) -> dict[str, str]:
        """Extra configuration that was in force with this revision."""
        return extra_of(self.extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """Retained revisions of one RM, the oldest first, and the marks of operators in its partitions.

    `said` is the last text of the RM itself, from a registration or an update; empty if there is none.
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
        """True if the revision in force was applied, and remains until it is replaced."""
        return bool(self.kept) and self.current.source in APPLIED

    @property
    def size(self) -> int:
        """Total bytes of all retained texts, each counted once."""
        return len(self.said) + len(self.said_extra) + _bytes_of(self.kept)

    @property
    def operator_marks(self) -> Marks:
        """The marks, for the core."""
        return marks_of_core(self.marks)

    def marking(self, mark: Mark, *, on: bool) -> "Revisions":
        """The revisions with a mark in place of an earlier one, or without the mark if `on` is false."""
        others = tuple(other for other in self.marks if other.key != mark.key)
        return replace(self, marks=(*others, mark) if on else others)

    def without_marks(self, applications: Container[tuple[PartitionName, str]]) -> "Revisions":
        """The revisions without the marks of these applications, which have ended."""
        over = {mark for mark in self.marks if (mark.partition, mark.name) in applications}
        kept = (mark for mark in self.marks if not (mark in over and mark.kind.is_of_application))
        return replace(self, marks=tuple(kept))

    def marked_as(self, other: "Revisions | None") -> "Revisions":
        """The revisions with the marks of `other`, which may have fewer marks by now."""
        return self if other is None or other.marks == self.marks else replace(self, marks=other.marks)

    def goes_on(self, text: str) -> bool:
        """True if an applied configuration remains in force when the RM registers with this text."""
        return self.is_applied and text in ("", self.said, self.current.text)

    def extra_after(self, extra: str) -> str:
        """The extra configuration in force if an applied one remains in force and the RM sends `extra`."""
        return self.current.extra if extra in ("", self.said_extra) else extra

    def saying(self, text: str, extra: str = "") -> "Revisions":
        """The revisions with new texts of the RM itself. An empty text changes nothing."""
        return replace(self, said=text or self.said, said_extra=extra or self.said_extra)

    def find(self, number: int) -> Revision | None:
        """The revision with this number; None if it is not retained."""
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
        """The revisions with a new one, which is in force; the oldest revisions may be dropped."""
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
            size=_size(text),
            extra=extra,
            instead_of=instead_of,
        )
        kept = (*self.kept, revision)[-MAX_REVISIONS:]
        while len(kept) > 1 and _bytes_of(kept) > MAX_TEXT_BYTES:
            kept = kept[1:]
        return replace(self, kept=kept)


def extra_text(extra_config: Mapping[str, str]) -> str:
    """Canonical text of an extra configuration; empty if there is none."""
    if not extra_config:
        return ""
    return json.dumps(dict(extra_config), ensure_ascii=False, sort_keys=True)


def extra_of(text: str) -> dict[str, str]:
    """The extra configuration in a text of `extra_text`."""
    return json.loads(text) if text else {}


def _bytes_of(revisions: Iterable[Revision]) -> int:
    """Total bytes of all distinct texts."""
    texts: dict[str, int] = {}
    for revision in revisions:
        texts[revision.text] = revision.size
        if revision.extra and revision.extra not in texts:
            texts[revision.extra] = _size(revision.extra)
    return sum(texts.values())


def _size(text: str) -> int:
    """Number of bytes of a text in UTF-8."""
    return len(text.encode(errors="replace"))


FORMAT = 2
"""Version of the format. Format 3 must not be used, because unreleased servers wrote such documents."""


class RevisionsForm(DocumentForm[Revisions]):
    """Revisions as packed JSON, with each text once."""

    prefix = "configurations/"
    what = "configuration"

    def encode(self, rm_id: RmId, value: Revisions, largest: int) -> bytes:
        """Encode revisions; the oldest are left out if there are too many. See `DocumentForm`."""
        while True:
            content = pack(encode(_written(value)))
            if len(content) <= largest:
                return content
            if len(value.kept) == 1:
                raise TooLarge(
                    f"the configuration of RM {rm_id} has {len(content)} bytes when it is packed, "
                    f"and the store takes {largest}"
                )
            value = replace(value, kept=value.kept[(len(value.kept) + 1) // 2 :])

    def decode(self, rm_id: RmId, content: bytes) -> Revisions:
        """Decode the revisions in a document. See `DocumentForm`."""
        try:
            revisions = _read(fields_in(unpack(content), FORMAT))
        except Newer:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise Damaged(f"something is missing or wrong: {error}") from None
        numbers = [revision.number for revision in revisions.kept]
        if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Damaged(f"the revisions are not in order: {numbers}")
        if revisions.rm_id != rm_id:
            raise Damaged(f"it belongs to RM {revisions.rm_id}")
        return revisions


def _read(fields: dict[str, Any]) -> Revisions:
    """The revisions in the fields of a document.

    Raises:
        LookupError, TypeError, ValueError: a field is missing or invalid.
    """
    if fields["format"] != FORMAT:
        raise ValueError(f"it is of format {fields['format']}, not {FORMAT}")
    texts = made(fields["texts"], list[str])
    for one, name in _places_of_texts(fields):
        at = one[name]
        if type(at) is not int or not 0 <= at < len(texts):
            raise ValueError(f"{name}: {at!r:.20} is no number of a text")
        one[name] = texts[at]
    kept = [{**one, "number": one["revision"], "size": _size(one["text"])} for one in fields["revisions"]]
    read = made({**fields, "kept": kept}, Revisions)
    return replace(read, marks=tuple(map(with_terms, read.marks)))


def with_terms(mark: Mark) -> Mark:
    """A mark from a document, with the terms of its drain if the extension for drains is installed.

    Raises:
        LookupError, TypeError, ValueError: the terms are invalid.
    """
    read = table("TERMS").get("drain")
    return replace(mark, drain=read(mark.drain) if mark.drain and read else None)


def _written(revisions: Revisions) -> dict[str, Any]:
    """The JSON value of the revisions, in which each text is referred to by its number."""
    marks = (replace(one, drain=one.drain and asdict(one.drain)) for one in revisions.marks)
    fields: dict[str, Any] = plain(replace(revisions, marks=tuple(marks)))
    fields["revisions"] = fields.pop("kept")
    for one in fields["revisions"]:
        one["revision"] = one.pop("number")
        del one["size"]
    texts: dict[str, int] = {}
    for one, name in _places_of_texts(fields):
        one[name] = texts.setdefault(one[name], len(texts))
    return {"format": FORMAT, **fields, "texts": list(texts)}


def _places_of_texts(fields: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The fields of a document that are texts of configurations."""
    yield from ((fields, name) for name in ("said", "said_extra"))
    yield from ((one, name) for one in fields["revisions"] for name in ("text", "extra"))
