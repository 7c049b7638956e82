"""Revisions of an RM as values: numbers, bounds, and the rule of registration."""

import json
from random import Random
from typing import Any

import pytest

from licorne_core.config import load
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.store.configurations.revisions import (
    MAX_REVISIONS,
    MAX_TEXT_BYTES,
    Mark,
    MarkKind,
    Revisions,
    RevisionsForm,
    Source,
)
from licorne_server.store.documents.documents import MAX_DOCUMENT, TooLarge
from licorne_server.store.documents.encoding import Newer
from licorne_server.store.documents.owned import Damaged, pack, unpack
from support.server.configuring import A, B, C, text
from support.state import EXTRA, revisions_of

EMPTY = Revisions(rm_id=RmId("rm"))


def having(*changes: tuple[str, Source], said: str = "") -> Revisions:
    """Revisions with texts from these sources."""
    revisions = EMPTY
    for config, source in changes:
        revisions = revisions.adding(load(config), source, time=1, by="somebody")
    return revisions.saying(said)


def test_numbers_of_revisions_are_not_reused() -> None:
    """A bounded number of revisions is stored; their numbers are never reused."""
    revisions = having(*[((A, B)[n % 2], Source.RM) for n in range(MAX_REVISIONS + 7)])
    assert [item.number for item in revisions.kept] == list(range(8, MAX_REVISIONS + 8))
    assert revisions.find(7) is None
    assert revisions.find(8) == revisions.kept[0]


def test_texts_are_counted_once_and_bounded() -> None:
    """Equal texts count once; above the bound of texts the oldest revisions are dropped."""
    assert having((A, Source.RM), (B, Source.RM), (A, Source.RM)).size == len(A) + len(B)
    large = [text(name) + "#" * (MAX_TEXT_BYTES // 2 - 500) for name in "abc"]
    revisions = having(*[(config, Source.OPERATOR) for config in large])
    assert [item.number for item in revisions.kept] == [2, 3]
    assert revisions.size <= MAX_TEXT_BYTES


@pytest.mark.parametrize("source", [Source.OPERATOR, Source.ROLLBACK])
def test_an_applied_revision_remains(source: Source) -> None:
    """An applied revision remains until the RM sends a text that is neither its last nor in force."""
    revisions = having((A, Source.REGISTRATION), (B, source), said=A)
    assert [revisions.goes_on(said) for said in (A, B, "", C)] == [True, True, True, False]
    assert not revisions.saying(C).goes_on(A)


@pytest.mark.parametrize("source", [Source.REGISTRATION, Source.RM, Source.FILE, Source.BUILT_IN], ids=str)
def test_a_text_that_was_not_applied_is_replaced(source: Source) -> None:
    """Without an applied revision the RM's text takes effect."""
    revisions = having((A, Source.REGISTRATION), (B, source), said=A)
    assert not any(revisions.goes_on(said) for said in (A, B, "", C))


NAMES = ("rm", "..", "a/../../b", "é" * 128, "nul?*:|", " ")
FORM = RevisionsForm()


@pytest.mark.parametrize("name", NAMES)
def test_revisions_survive_encoding(name: str) -> None:
    """Revisions, texts, marks and the RM's own texts survive encoding, for any rmID."""
    mark = Mark(kind=MarkKind.HOLD, partition=PartitionName(f"[{name}]default"), name="app", by="ann", time=7)
    kept = revisions_of(name, A, B, A, said=C, extra=EXTRA).marking(mark, on=True)
    content = FORM.encode(kept.rm_id, kept, MAX_DOCUMENT)
    assert FORM.decode(kept.rm_id, content) == kept
    assert sorted(json.loads(unpack(content))["texts"]) == sorted([A, B, C, EXTRA])


def test_old_revisions_are_left_out_of_a_large_document() -> None:
    """A document has the revision in force, and as many earlier ones as fit."""
    noise = revisions_of("rm", *[text(f"q{number}") + "# " + random_text(number) for number in range(8)])
    content = FORM.encode(noise.rm_id, noise, MAX_DOCUMENT)
    assert len(content) <= MAX_DOCUMENT
    found = FORM.decode(noise.rm_id, content)
    assert found.current.number == 8
    assert 1 <= len(found.kept) < 8


def test_a_revision_that_is_too_large_is_refused() -> None:
    """The error names the size and the limit."""
    huge = revisions_of("rm", text("q") + "# " + "".join(map(random_text, range(6))))
    with pytest.raises(TooLarge, match=f"configuration of RM rm .* and the store takes {MAX_DOCUMENT}"):
        FORM.encode(huge.rm_id, huge, MAX_DOCUMENT)


def random_text(seed: int) -> str:
    """A text of some 300,000 characters that can hardly be compressed to less than half."""
    return Random(seed).randbytes(150_000).hex()


LAYOUT = """{"format": 2, "rm_id": "rm", "said": 0, "said_extra": 1, "texts": ["a", "", "b é"],
"revisions": [{"revision": 4, "source": "rm", "time": 7, "by": "ann", "comment": "why", "checksum": "1f",
               "text": 2, "extra": 1, "instead_of": 3}],
"marks": [{"kind": "change", "partition": "[rm]default", "name": "app", "by": "bob", "time": 8, "why": "",
           "priority": -3, "queue": "root.b", "drain": null}]}"""


def test_the_layout_of_documents_is_that_of_older_members() -> None:
    """The layout is fixed, so that members of several versions can share the document of an RM."""
    found = FORM.decode(RmId("rm"), pack(LAYOUT.encode()))
    assert json.loads(unpack(FORM.encode(found.rm_id, found, MAX_DOCUMENT))) == json.loads(LAYOUT)
    assert (found.said, found.current.number, found.current.text, found.current.size) == ("a", 4, "b é", 4)
    assert [(mark.kind, mark.priority, mark.queue) for mark in found.marks] == [
        (MarkKind.CHANGE, -3, "root.b")
    ]


def test_a_newer_document_is_distinguished_from_a_damaged_one() -> None:
    """A damaged document is replaced, and one of a newer server is not."""
    with pytest.raises(Newer, match="format 3 is newer than 2"):
        FORM.decode(RmId("rm"), pack(LAYOUT.replace('"format": 2', '"format": 3').encode()))


SPOILT: dict[str, Any] = {
    "format": (1, "of format 1, not 2"),
    "rm_id": ("other", "it belongs to RM other"),
    "said": (9, "missing or wrong"),
    "texts": ([], "missing or wrong"),
    "revisions": ([], "not in order"),
    "marks": (
        [{"kind": "node", "partition": "", "name": "", "time": 2**63}],
        r"<= .* `\$\.marks\[0\]\.time`",
    ),
}


@pytest.mark.parametrize("field", SPOILT)
def test_a_document_of_anything_else_is_damaged(field: str) -> None:
    """The error has the problem."""
    value, why = SPOILT[field]
    kept = revisions_of("rm", A, B)
    document = json.loads(unpack(FORM.encode(kept.rm_id, kept, MAX_DOCUMENT)))
    with pytest.raises(Damaged, match=why):
        FORM.decode(kept.rm_id, pack(json.dumps({**document, field: value}).encode()))
    del document[field]
    if field == "marks":  # A reader may know more kinds of state than the writer.
        assert FORM.decode(kept.rm_id, pack(json.dumps(document).encode())) == kept
        return
    with pytest.raises(Damaged, match="missing or wrong"):
        FORM.decode(kept.rm_id, pack(json.dumps(document).encode()))
