"""Revisions of an RM as values: numbers, bounds, and the rule of registration."""

import pytest

from licorne_core.config import load
from licorne_core.values.ids import RmId
from licorne_server.store.configurations.revisions import MAX_REVISIONS, MAX_TEXT_BYTES, Revisions, Source
from support.server.configuring import A, B, C, text

EMPTY = Revisions(rm_id=RmId("rm"))


def having(*changes: tuple[str, Source], said: str = "") -> Revisions:
    """The revisions after texts from these sources."""
    revisions = EMPTY
    for config, source in changes:
        revisions = revisions.adding(load(config), source, time=1, by="somebody")
    return revisions.saying(said)


def test_numbers_rise_though_old_ones_go() -> None:
    """A bounded number of revisions is retained; numbers are never reused."""
    revisions = having(*[((A, B)[n % 2], Source.RM) for n in range(MAX_REVISIONS + 7)])
    assert [item.number for item in revisions.kept] == list(range(8, MAX_REVISIONS + 8))
    assert revisions.find(7) is None
    assert revisions.find(8) == revisions.kept[0]


def test_texts_are_counted_once_and_bounded() -> None:
    """Equal texts count once; the oldest revisions above the bound of texts are dropped."""
    assert having((A, Source.RM), (B, Source.RM), (A, Source.RM)).size == len(A) + len(B)
    large = [text(name) + "#" * (MAX_TEXT_BYTES // 2 - 500) for name in "abc"]
    revisions = having(*[(config, Source.OPERATOR) for config in large])
    assert [item.number for item in revisions.kept] == [2, 3]
    assert revisions.size <= MAX_TEXT_BYTES


@pytest.mark.parametrize("source", [Source.OPERATOR, Source.ROLLBACK])
def test_what_was_applied_goes_on(source: Source) -> None:
    """An applied revision stays until the RM sends a text that is neither its last nor in force."""
    revisions = having((A, Source.REGISTRATION), (B, source), said=A)
    assert [revisions.goes_on(said) for said in (A, B, "", C)] == [True, True, True, False]
    assert not revisions.saying(C).goes_on(A)


@pytest.mark.parametrize("source", [Source.REGISTRATION, Source.RM, Source.FILE, Source.BUILT_IN], ids=str)
def test_what_nobody_applied_does_not_go_on(source: Source) -> None:
    """Without an applied revision the RM's text comes into force."""
    revisions = having((A, Source.REGISTRATION), (B, source), said=A)
    assert not any(revisions.goes_on(said) for said in (A, B, "", C))
