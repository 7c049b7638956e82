"""Regular expressions from configurations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.errors import ConfigError
from licorne_core.values.names import Pattern


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
    """Nested repetition, which takes other engines forever, answers at once."""
    assert not Pattern("^(a+)+$").search("a" * 5000 + "!")


@pytest.mark.parametrize("text", ["(", "[a", "a**", "x{2,1}", "(?=look)", r"(a)\1"])
def test_what_is_no_expression(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A text that does not compile is a typed error with the reason, and nothing is printed."""
    with pytest.raises(ConfigError, match="is not a regular expression: "):
        Pattern(text)
    assert capfd.readouterr() == ("", "")


@given(st.text(), st.text())
def test_any_text_compiles_or_is_refused(text: str, subject: str) -> None:
    """Whatever is written, the answer is a pattern that can be asked or a typed error."""
    try:
        pattern = Pattern(text)
    except ConfigError:
        return
    assert pattern.search(subject) in (True, False)
