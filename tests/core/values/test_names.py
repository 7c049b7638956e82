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
def test_an_access_list_has_users_then_groups(text: str, alice: bool, bob: bool) -> None:
    """Users come first, groups after one blank; a star means everyone, and nothing means nobody."""
    acl = Acl.parse(text)
    assert (acl.allows(ALICE), acl.allows(BOB)) == (alice, bob)
    assert acl.text == text


@pytest.mark.row(38)
@pytest.mark.parametrize("text", ["a b c", "a  b", "* * *", " a b"])
def test_an_access_list_with_three_parts_is_refused(text: str) -> None:
    """An access list with more than two parts is refused, with a message that quotes the list."""
    with pytest.raises(ConfigError) as refusal:
        Acl.parse(text)
    assert refusal.value.problems[0].message == f"multiple spaces found in ACL: '{text}'"


@pytest.mark.row(38)
def test_impossible_names_are_dropped() -> None:
    """A name that no user or group can have is dropped and reported; other names count."""
    dropped: list[str] = []
    acl = Acl.parse("alice,1up,a:b,svc$,*,, dev,a@b", dropped)
    assert acl.users == {"alice", "svc$"}
    assert acl.groups == {"dev"}
    assert not acl.everyone
    assert dropped == ["1up", "a:b", "*", "a@b"]


@pytest.mark.slow
@given(st.text())
def test_any_text_is_an_access_list_or_refused(text: str) -> None:
    """Any text gives an access list or a ConfigError."""
    try:
        acl = Acl.parse(text)
    except ConfigError:
        return
    assert acl.text == text


# Regular expressions


@pytest.mark.row(75)
def test_an_expression_matches_anywhere() -> None:
    """A filter's expression matches anywhere in the name."""
    pattern = Pattern("dev*")
    assert [pattern.search(name) for name in ("dev_app", "de", "xdevy", "ops")] == [
        True,
        True,
        True,
        False,
    ]


def test_nested_repetitions_are_evaluated_fast() -> None:
    """An expression with nested repetitions, which is exponential in other engines, is evaluated fast."""
    assert not Pattern("^(a+)+$").search("a" * 5000 + "!")


@pytest.mark.parametrize("text", ["(", "[a", "a**", "x{2,1}", "(?=look)", r"(a)\1"])
def test_an_invalid_expression_is_refused_with_a_reason(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """An expression that does not compile raises ConfigError with the reason, and nothing is printed."""
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
