"""Access lists and regular expressions of configurations (spec §§ 2.3, 3.9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import UserGroup
from licorne_core.values.names import Acl, Pattern

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
def test_users_and_groups_of_access_lists(text: str, alice: bool, bob: bool) -> None:
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
    """A name that no user or group can have is left out and reported; the others count."""
    dropped: list[str] = []
    acl = Acl.parse("alice,1up,a:b,svc$,*,, dev,a@b", dropped)
    assert acl.users == {"alice", "svc$"}
    assert acl.groups == {"dev"}
    assert not acl.everyone
    assert dropped == ["1up", "a:b", "*", "a@b"]


@pytest.mark.slow
@given(st.text())
def test_any_text_is_a_list_or_refused(text: str) -> None:
    """Any text gives an access list or a ConfigError."""
    try:
        acl = Acl.parse(text)
    except ConfigError:
        return
    assert acl.text == text


# Regular expressions


@pytest.mark.row(75)
def test_search_is_not_anchored() -> None:
    """A filter's expression matches anywhere in the name."""
    pattern = Pattern("dev*")
    assert [pattern.search(name) for name in ("dev_app", "de", "xdevy", "ops")] == [
        True,
        True,
        True,
        False,
    ]


def test_an_evil_expression_is_harmless() -> None:
    """Nested repetition, which takes other engines forever, is evaluated at once."""
    assert not Pattern("^(a+)+$").search("a" * 5000 + "!")


@pytest.mark.parametrize("text", ["(", "[a", "a**", "x{2,1}", "(?=look)", r"(a)\1"])
def test_invalid_expressions(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A text that does not compile is a typed error with the reason, and nothing is printed."""
    with pytest.raises(ConfigError, match="is not a regular expression: "):
        Pattern(text)
    assert capfd.readouterr() == ("", "")


@given(st.text(), st.text())
def test_any_text_compiles_or_is_refused(text: str, subject: str) -> None:
    """Any text gives a pattern or a ConfigError."""
    try:
        pattern = Pattern(text)
    except ConfigError:
        return
    assert pattern.search(subject) in (True, False)
