"""Members and owners as bytes: complete, open to later versions, and checked."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.records import (
    FORMAT,
    MAX_RECORD,
    MOST_LOADS,
    claimed,
    read_member,
    read_ownership,
    released,
    write_member,
    write_ownership,
)
from licorne_server.store.coordination.store import Member, MemberId, Ownership
from licorne_server.store.documents.documents import Conflict
from licorne_server.store.documents.encoding import MOST, Unreadable
from support.coordination.backends import member, rm

NOBODY = MemberId("")
A, B = MemberId("a"), MemberId("b")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
amounts = st.floats(0, 1e12)
members = st.builds(
    Member,
    id=st.just(A),
    name=texts,
    address=texts,
    http=texts,
    version=texts,
    protocols=st.lists(st.integers(0, 100), max_size=4).map(tuple),
    started=amounts,
    draining=st.booleans(),
    load=st.dictionaries(texts.map(RmId), amounts, max_size=5),
)
ownerships = st.builds(
    Ownership,
    rm_id=texts.map(RmId),
    owner=texts.map(MemberId),
    epoch=st.integers(0, MOST),
    moved=amounts,
    revision=st.integers(1, MOST),
)


@given(members)
def test_a_member_survives_encoding(written: Member) -> None:
    """All fields of a member survive encoding."""
    assert read_member(A, write_member(written)) == written


@given(ownerships)
def test_an_ownership_survives_encoding(written: Ownership) -> None:
    """All fields of an ownership survive encoding."""
    assert read_ownership(written.rm_id, write_ownership(written), written.revision) == written


def test_a_later_version_may_write_more() -> None:
    """Unknown keys are ignored; missing ones have their defaults."""
    least = {"format": FORMAT, "name": "n", "address": "h:1", "later": {"nested": [1]}}
    assert read_member(A, json.dumps(least).encode()) == Member(id=A, name="n", address="h:1")
    least = {"format": FORMAT, "owner": "a", "epoch": 3, "later": None}
    expected = Ownership(rm_id=rm("one"), owner=A, epoch=3, revision=9)
    assert read_ownership(rm("one"), json.dumps(least).encode(), 9) == expected


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b"nothing", "malformed"),
        (b"[" * 100_000, "Expected `object`, got `array`"),
        (b'{"format":1,"x":' + b"[" * 100_000, "recursion"),
        (b"1" * 10_000, "out of range"),
        (b'{"format":NaN}', "malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"{}", "format missing"),
        (b'{"format":"1"}', "format: expected a count, found '1'"),
        (b'{"format":2}', "format 2 is newer than 1"),
        (b'{"format":1' + b" " * MAX_RECORD + b"}", f"{MAX_RECORD} at most"),
    ],
)
def test_other_bytes_are_refused(data: bytes, problem: str) -> None:
    """Any other bytes are refused with the reason, which quotes little of them."""
    for read in (
        lambda: read_member(A, data),
        lambda: read_ownership(rm("one"), data, 1),
    ):
        with pytest.raises(Unreadable, match=problem) as refused:
            read()
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", None),
        ("name", 1),
        ("address", ["x" * 1000]),
        ("http", 0),
        ("version", {}),
        ("protocols", 1),
        ("protocols", [1, "2"]),
        ("protocols", [-1]),
        ("started", "now"),
        ("started", True),
        ("started", -1),
        ("draining", 0),
        ("load", []),
        ("load", {"one": "much"}),
        ("load", {"one": -0.1}),
        ("load", {"one": 10**400}),
    ],
)
def test_a_field_of_another_type_is_named(key: str, value: Any) -> None:
    """A record with one invalid field is refused completely, and the field is named."""
    values = {"format": FORMAT, "name": "n", "address": "h:1", key: value}
    with pytest.raises(Unreadable, match=f"{key}") as refused:
        read_member(A, json.dumps(values).encode())
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("owner", None),
        ("owner", 7),
        ("epoch", "7"),
        ("epoch", 1.5),
        ("epoch", True),
        ("epoch", -1),
        ("epoch", MOST + 1),
        ("moved", "now"),
        ("moved", None),
    ],
)
def test_a_field_of_an_owner_is_named(key: str, value: Any) -> None:
    """A record of an RM with an invalid field is refused, so that no wrong epoch is used."""
    values = {"format": FORMAT, "owner": "a", "epoch": 1, key: value}
    with pytest.raises(Unreadable, match=f"{key}"):
        read_ownership(rm("one"), json.dumps(values).encode(), 1)


def test_a_member_of_many_rms_publishes_the_heaviest() -> None:
    """Whatever the number of a member's RMs, its record is small enough to be read."""
    # Control characters are those that JSON makes longest.
    load = {rm(f"{number:08}" + "\x01" * 120): float(number) for number in range(5 * MOST_LOADS)}
    data = write_member(replace(member("a"), load=load))
    assert len(data) <= MAX_RECORD
    kept = read_member(A, data).load
    assert len(kept) == MOST_LOADS
    assert min(kept.values()) == 4 * MOST_LOADS


def test_claims_raise_the_epoch_and_record_moves() -> None:
    """The epoch is above those of the record and of the RM; only a hand-over counts as a move."""
    first = claimed(rm("one"), A, None, 0, A, now=5.0)
    assert first == Ownership(rm_id=rm("one"), owner=A, epoch=1)
    second = claimed(rm("one"), A, first, 0, A, now=6.0)
    assert (second.epoch, second.moved) == (2, 0.0)
    handed_on = claimed(rm("one"), B, second, 9, A, now=7.0)
    assert (handed_on.owner, handed_on.epoch, handed_on.moved) == (B, 10, 7.0)
    taken = claimed(rm("one"), A, handed_on, 0, A, now=8.0)
    assert (taken.owner, taken.epoch, taken.moved) == (A, 11, 7.0)


def test_only_the_owner_releases() -> None:
    """A release names the owner of the RM; the epoch and the time of the move are kept."""
    owned = Ownership(rm_id=rm("one"), owner=A, epoch=4, moved=7.0, revision=3)
    assert released(owned, A) == replace(owned, owner=NOBODY, revision=0)
    for other in (B, NOBODY):
        with pytest.raises(Conflict, match="'one'"):
            released(owned, other)
    with pytest.raises(Conflict, match="'one'"):
        released(replace(owned, owner=NOBODY), NOBODY)
