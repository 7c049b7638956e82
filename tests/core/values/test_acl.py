"""Access lists (spec § 2.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import UserGroup
from licorne_core.values.names import Acl

ALICE = UserGroup("alice", ("dev", "ops"))
BOB = UserGroup("bob", ("bob",))


@pytest.mark.row(38)
@pytest.mark.parametrize(
    ("text", "alice", "bob"),
    [
        ("*", True, True),
        (" *", True, True),
        (" * ", True, True),
        ("carol *", True, True),
        ("* nobody", True, True),
        ("alice,bob", True, True),
        ("alice", True, False),
        ("alice ", True, False),
        (" dev", True, False),
        (" dev ", True, False),
        ("bob dev", True, True),
        ("bob ops,qa", True, True),
        ("dev", False, False),
        ("carol", False, False),
        ("", False, False),
        (" ", False, False),
    ],
)
def test_who_is_let_in(text: str, alice: bool, bob: bool) -> None:
    """Users first, groups after one blank, a star for everyone, nothing for nobody."""
    acl = Acl.parse(text)
    assert (acl.allows(ALICE), acl.allows(BOB)) == (alice, bob)
    assert acl.text == text


@pytest.mark.row(38)
@pytest.mark.parametrize("text", ["a b c", "a  b", "* * *", " a b"])
def test_more_than_two_lists_are_refused(text: str) -> None:
    """A third list is an error that quotes the text."""
    with pytest.raises(ConfigError) as refusal:
        Acl.parse(text)
    assert refusal.value.problems[0].message == f"multiple spaces found in ACL: '{text}'"


@pytest.mark.row(38)
def test_impossible_names_are_dropped() -> None:
    """A name that no user or group can have is left out and told; the others count."""
    dropped: list[str] = []
    acl = Acl.parse("alice,1up,a:b,svc$,*,, dev,a@b", dropped)
    assert acl.users == {"alice", "svc$"}
    assert acl.groups == {"dev"}
    assert not acl.everyone
    assert dropped == ["1up", "a:b", "*", "a@b"]


@given(st.text())
def test_any_text_is_a_list_or_refused(text: str) -> None:
    """Whatever is written, the answer is a list or a typed error."""
    try:
        acl = Acl.parse(text)
    except ConfigError:
        return
    assert acl.text == text
