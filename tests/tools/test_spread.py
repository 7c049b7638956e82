"""Figures with their spread."""

import pytest

from licorne_tools.bench.report import Spread, brief, times


def test_a_figure_is_quoted_with_its_spread() -> None:
    """The middle stands before the least and the greatest."""
    assert Spread.of([30.12, 28.94, 29.4]).quoted() == "29.4 (28.9 to 30.1)"
    assert Spread.of([1.8, 2.0, 1.9, 1.9]).quoted(times) == "1.90 (1.80 to 2.00)"


def test_what_was_measured_once_has_no_spread() -> None:
    """A single run is quoted as it is."""
    assert Spread.of([12.34]).quoted() == "12.3"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.14449, "0.144"), (421.3, "421"), (1234.5, "1,234"), (50_000.0, "50,000")],
)
def test_three_digits_say_enough(value: float, shown: str) -> None:
    """Whole numbers are shown whole, all others as far as they can be told from noise."""
    assert brief(value) == shown
