"""Amounts as people write them (spec § 2.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.errors import ConfigError
from licorne_core.values.quantity import parse_quantity, print_quantity
from licorne_core.values.resources import INT64_MAX

NAMES = st.sampled_from(["memory", "vcore", "nvidia.com/gpu", "ephemeral-storage"])


@pytest.mark.row(32)
@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        ("vcore", "500m", 500),
        ("vcore", "10", 10_000),
        ("vcore", "2k", 2_000_000),
        ("vcore", "1Ki", 1_024_000),
        ("memory", "0", 0),
        ("memory", "1024", 1024),
        ("memory", "1k", 1_000),
        ("memory", "1M", 1_000_000),
        ("memory", "3G", 3_000_000_000),
        ("memory", "1Ki", 1 << 10),
        ("memory", "1Mi", 1 << 20),
        ("memory", "1Gi", 1073741824),
        ("memory", "1Ti", 1 << 40),
        ("memory", "1Pi", 1 << 50),
        ("memory", "7Ei", 7 << 60),
        ("memory", "9E", 9 * 10**18),
        ("memory", " 5 Gi ", 5 << 30),
        ("memory", "\t5\n", 5),
        ("nvidia.com/gpu", "010", 10),
        ("pods", str(INT64_MAX), INT64_MAX),
    ],
)
def test_units(name: str, text: str, amount: int) -> None:
    """Suffixes multiply, vcore counts in milli-cores, blanks and leading zeros do not matter."""
    assert parse_quantity(name, text) == amount


@pytest.mark.row(32)
@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        *(
            ("memory", text, "invalid quantity")
            for text in (
                "1.5",
                "-1",
                "+1",
                "",
                " ",
                "K",
                "M",
                "5Mb",
                "5 5",
                "0x10",
                "1e3",
                "٣",
                "5Gii",
            )
        ),
        ("memory", "5m", "invalid suffix"),
        ("memory", "5K", "invalid suffix"),
        ("memory", "5ki", "invalid suffix"),
        ("gpu", "5mi", "invalid suffix"),
        ("vcore", "5K", "invalid suffix"),
        ("vcore", "5mi", "invalid suffix"),
        ("memory", "9223372036854775808", "invalid quantity: overflow"),
        ("memory", "8Ei", "invalid quantity: overflow"),
        ("vcore", "10E", "invalid quantity: overflow"),
        ("memory", "9" * 100_000, "invalid quantity: overflow"),
    ],
)
def test_what_is_no_amount(name: str, text: str, reason: str) -> None:
    """What cannot be read says whether number, suffix or size is to blame, and names the value."""
    with pytest.raises(ConfigError) as refusal:
        parse_quantity(name, text)
    assert refusal.value.problems[0].message == f"{reason} '{text}' for {name}"


@given(NAMES, st.integers(0, INT64_MAX))
def test_round_trip(name: str, amount: int) -> None:
    """What is printed reads back as the same amount."""
    assert parse_quantity(name, print_quantity(name, amount)) == amount


@given(NAMES, st.text(alphabet="0123456789 mkKMGTPEi.-+", max_size=24))
def test_any_text_is_an_amount_or_refused(name: str, text: str) -> None:
    """Whatever is written, the answer is an amount that fits or a typed error."""
    try:
        amount = parse_quantity(name, text)
    except ConfigError:
        return
    assert 0 <= amount <= INT64_MAX


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("vcore", 500, "500m"),
        ("vcore", 10_000, "10"),
        ("vcore", -1500, "-1500m"),
        ("memory", 0, "0"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 1536 << 20, "1536Mi"),
        ("memory", 1000, "1000"),
        ("gpu", 1024, "1024"),
    ],
)
def test_printing(name: str, amount: int, text: str) -> None:
    """Amounts print in the largest unit that loses nothing."""
    assert print_quantity(name, amount) == text
