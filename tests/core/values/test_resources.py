"""Resource arithmetic (spec § 0), and amounts in texts (spec § 2.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_cli.output.text import human_resources
from licorne_core.values import resources as r
from licorne_core.values.errors import ConfigError
from licorne_core.values.resources import INT64_MAX, INT64_MIN, parse_quantity, print_quantity

NAMES = ("memory", "vcore", "gpu", "pods")
AMOUNTS = st.one_of(
    st.integers(-3, 3),
    st.integers(INT64_MIN, INT64_MAX),
    st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX]),
)
SIZES = st.dictionaries(st.sampled_from(NAMES), AMOUNTS, max_size=len(NAMES))


def clamped(value: int) -> int:
    """The value, limited to int64."""
    return min(INT64_MAX, max(INT64_MIN, value))


@given(SIZES, SIZES)
def test_sums_saturate(left: r.Resources, right: r.Resources) -> None:
    """Sums and differences have the names of both sides, and saturate at the bounds of int64."""
    names = left.keys() | right.keys()
    assert r.add(left, right) == {n: clamped(left.get(n, 0) + right.get(n, 0)) for n in names}
    assert r.subtract(left, right) == {n: clamped(left.get(n, 0) - right.get(n, 0)) for n in names}


@given(SIZES, st.integers(INT64_MIN, INT64_MAX))
def test_products_saturate(size: r.Resources, factor: int) -> None:
    """Products saturate at the bounds of int64."""
    assert r.multiply(size, factor) == {n: clamped(value * factor) for n, value in size.items()}


@given(st.lists(SIZES, max_size=4))
def test_a_sum_of_many_equals_successive_additions(sizes: list[r.Resources]) -> None:
    """`sum_of` equals repeated calls of `add`."""
    total: dict[str, int] = {}
    for size in sizes:
        total = r.add(total, size)
    assert r.sum_of(sizes) == total


@given(SIZES, SIZES)
def test_arithmetic_changes_no_operand(left: r.Resources, right: r.Resources) -> None:
    """No function changes its operands."""
    before = dict(left), dict(right)
    for function in (r.add, r.subtract, r.min_undefined, r.fits):
        function(left, right)
    r.without_zeros(left)
    assert (left, right) == before


@given(SIZES, SIZES)
def test_a_type_missing_in_the_limit_is_zero_or_unlimited(limit: r.Resources, size: r.Resources) -> None:
    """A type missing in the limit counts as zero in `fits`, and as unlimited in `fits_max_undefined`."""
    assert r.fits(limit, size) == all(v <= max(0, limit.get(n, 0)) for n, v in size.items())
    shared = limit.keys() & size.keys()
    assert r.fits_max_undefined(limit, size) == all(size[n] <= max(0, limit[n]) for n in shared)


@given(SIZES, SIZES)
def test_equality_includes_the_names_of_both_sides(left: r.Resources, right: r.Resources) -> None:
    """For equality a name that one side lacks counts as zero."""
    pairs = [(left.get(n, 0), right.get(n, 0)) for n in NAMES]
    assert r.equals(left, right) == all(a == b for a, b in pairs)


@given(SIZES)
def test_zero_negative_and_positive_amounts_are_distinguished(size: r.Resources) -> None:
    """`is_zero`, `has_negative` and the test for strictly positive amounts agree with a plain comparison."""
    values = list(size.values())
    assert r.is_zero(size) == all(v == 0 for v in values) == (r.without_zeros(size) == {})
    assert r.has_negative(size) == any(v < 0 for v in values)
    above = bool(values) and min(values) >= 0 and max(values) > 0
    assert r.is_strictly_greater_than_zero(size) == above


@given(SIZES, SIZES)
def test_the_minimum_is_taken_by_name(left: r.Resources, right: r.Resources) -> None:
    """For a name that one side lacks, the minimum is the amount of the other side."""
    smaller = r.min_undefined(left, right)
    assert smaller == {
        n: min(side[n] for side in (left, right) if n in side) for n in left.keys() | right.keys()
    }
    assert smaller == r.min_undefined(right, left)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 1000)), max_size=6))
def test_a_total_is_empty_after_all_refunds(sizes: list[dict[str, int]]) -> None:
    """A total to which amounts were charged and then refunded has no names."""
    total: dict[str, int] = {}
    for size in sizes:
        r.charge(total, tuple(size.items()))
    assert total == r.sum_of(sizes)
    for size in sizes:
        r.refund(total, tuple(size.items()))
    assert total == {}


def test_a_description_lists_amounts_by_name() -> None:
    """Messages list amounts sorted by name."""
    assert r.describe({"vcore": 2000, "memory": -1}) == "map[memory:-1 vcore:2000]"
    assert r.describe({}) == "map[]"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ({"vcore": 2500, "memory": 3 * 2**29, "gpu": 2}, "gpu=2,memory=1.5Gi,vcore=2.5"),
        ({"vcore": 2, "hugepages-2Mi": 2**40 - 1}, "hugepages-2Mi=1Ti,vcore=2m"),
        ({"vcore": -5, "ephemeral-storage": -(2**61)}, "ephemeral-storage=-2Ei,vcore=-5m"),
        ({"vcore": 0, "memory": 1023}, "memory=1023,vcore=0"),
    ],
)
def test_sentences_have_the_units_of_tables(size: dict[str, int], shown: str) -> None:
    """Sentences have amounts in the units of the tables of the command line."""
    assert r.in_units(size) == human_resources(size) == shown


def test_an_empty_amount_is_written_as_a_word() -> None:
    """Empty amounts are written as `nothing` in sentences."""
    assert r.in_units({}) == "nothing"


# Amounts in texts


WRITTEN = st.sampled_from(["memory", "vcore", "nvidia.com/gpu", "ephemeral-storage"])


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
def test_suffixes_are_multiplied(name: str, text: str, amount: int) -> None:
    """Suffixes multiply, vcore counts in milli-cores, and blanks and leading zeros do not matter."""
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
def test_an_invalid_amount_is_explained(name: str, text: str, reason: str) -> None:
    """The message about an invalid amount names the number, the suffix or the size, and has the value."""
    with pytest.raises(ConfigError) as refusal:
        parse_quantity(name, text)
    assert refusal.value.problems[0].message == f"{reason} '{text}' for {name}"


@given(WRITTEN, st.integers(0, INT64_MAX))
def test_a_printed_amount_parses_to_itself(name: str, amount: int) -> None:
    """A printed amount is parsed to the same amount."""
    assert parse_quantity(name, print_quantity(name, amount)) == amount


@given(WRITTEN, st.text(alphabet="0123456789 mkKMGTPEi.-+", max_size=24))
def test_any_text_is_an_amount_or_refused(name: str, text: str) -> None:
    """Any text gives an amount within int64 or a ConfigError."""
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
def test_amounts_are_printed_in_the_largest_exact_unit(name: str, amount: int, text: str) -> None:
    """An amount is printed in the largest unit that represents it exactly."""
    assert print_quantity(name, amount) == text
