"""Resource arithmetic (spec § 0), and quantities as text (spec § 2.2).

Resources are a plain mapping of names to integers: ``memory`` in bytes, ``vcore`` in milli-cores, other
types as counts. A missing name is *undefined*: unlimited in a maximum, zero in a size. Functions return
new mappings; only `charge` and `refund` change a mapping, a running total, in place.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from licorne_core.values.errors import ConfigError, Problem

Resources = Mapping[str, int]
Items = tuple[tuple[str, int], ...]

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
EMPTY: Resources = {}
MAX_RESOURCE_TYPES = 4096
"""Maximum number of resource types ever named in a partition, all of which are in every queue's sort key."""
BOUNDLESS: Final = 2**44
"""Amount of a floating resource that each node offers: more than all asks need, but no sum exceeds int64."""


def clamp(value: int) -> int:
    """The value, saturated at int64."""
    return INT64_MAX if value > INT64_MAX else INT64_MIN if value < INT64_MIN else value


def add(left: Resources, right: Resources) -> dict[str, int]:
    """Sum by name, over all names of both sides."""
    total = dict(left)
    for name, value in right.items():
        total[name] = clamp(total.get(name, 0) + value)
    return total


def subtract(left: Resources, right: Resources) -> dict[str, int]:
    """`left` minus `right` by name, over all names of both sides; may be negative."""
    rest = dict(left)
    for name, value in right.items():
        rest[name] = clamp(rest.get(name, 0) - value)
    return rest


def multiply(size: Resources, factor: int) -> dict[str, int]:
    """Each amount multiplied by the factor."""
    return {name: clamp(value * factor) for name, value in size.items()}


def sum_of(sizes: Iterable[Resources]) -> dict[str, int]:
    """Sum of the sizes by name."""
    total: dict[str, int] = {}
    for size in sizes:
        total = add(total, size)
    return total


def without_zeros(size: Resources) -> dict[str, int]:
    """The size without zero amounts."""
    return {name: value for name, value in size.items() if value}


def is_zero(size: Resources) -> bool:
    """True if all amounts are zero."""
    return not any(size.values())


def has_negative(size: Resources) -> bool:
    """True if any amount is below zero."""
    return any(value < 0 for value in size.values())


def fits(limit: Resources, size: Resources) -> bool:
    """True if the size fits; a type missing in the limit counts as zero."""
    return all(value <= max(0, limit.get(name, 0)) for name, value in size.items())


def fits_max_undefined(limit: Resources, size: Resources) -> bool:
    """True if the size fits; a type missing in the limit is unlimited."""
    return all(value <= max(0, limit[name]) for name, value in size.items() if name in limit)


def is_strictly_greater_than_zero(size: Resources) -> bool:
    """True if no amount is negative and at least one is positive."""
    return not has_negative(size) and any(value > 0 for value in size.values())


def equals(left: Resources, right: Resources) -> bool:
    """True if all amounts are equal; a missing name counts as zero."""
    return left == right or all(left.get(n, 0) == right.get(n, 0) for n in left.keys() | right.keys())


def min_undefined(left: Resources, right: Resources) -> dict[str, int]:
    """Smaller amount by name; a name missing on one side has the amount of the other."""
    smaller = {**left, **right}
    for name in left.keys() & right.keys():
        smaller[name] = min(left[name], right[name])
    return smaller


def charge(total: dict[str, int], items: Items) -> None:
    """Add to a running total in place.

    Running totals need no saturation: a command that would raise a total beyond int64 is refused
    (`handlers.bounds`).
    """
    for name, value in items:
        total[name] = total.get(name, 0) + value


def refund(total: dict[str, int], items: Items) -> None:
    """Subtract from a running total in place; names with a zero amount are dropped."""
    for name, value in items:
        left = total.get(name, 0) - value
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def describe(size: Resources) -> str:
    """The amounts as the older core writes them: ``map[memory:10 vcore:5]``, sorted by name.

    Shims rely on this form in refusals, events, and problems of a configuration.
    """
    return f"map[{' '.join(f'{name}:{size[name]}' for name in sorted(size))}]"


VCORE = "vcore"
MEMORY = "memory"


def in_units(size: Resources) -> str:
    """The amounts for people, in the usual units: ``memory=4Gi,vcore=1.5``, sorted by name."""
    return ",".join(f"{name}={_in_unit(name, size[name])}" for name in sorted(size)) or "nothing"


_IN_BYTES = (MEMORY, "ephemeral-storage")
_PAGES = "hugepages-"
_BYTE_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _in_unit(name: str, amount: int) -> str:
    if name == VCORE:
        return f"{amount}m" if 0 < abs(amount) < 1000 else _rounded(amount / 1000)
    if name not in _IN_BYTES and not name.startswith(_PAGES):
        return str(amount)
    value, unit = float(abs(amount)), 0
    # An amount that would be rounded up to 1024 is 1 of the next larger unit.
    while value >= 1023.95 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{'-' if amount < 0 else ''}{_rounded(value)}{_BYTE_UNITS[unit]}"


def _rounded(value: float) -> str:
    """The value rounded to at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


_DIGITS = "0123456789"
_BLANKS = " \t\n\f\r"
_LETTERS = "mkKMGTPE"
_MAX_DIGITS = len(str(INT64_MAX))
_DECIMAL = {letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)}
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_FACTORS = {"": 1, **_DECIMAL, **_BINARY}


def parse_quantity(name: str, text: str) -> int:
    """Parse a quantity: the amount in milli-cores for ``vcore``, else in units of the resource.

    Blanks around the text and before the suffix are allowed. Raises ConfigError for a sign, a
    fraction, an unknown suffix, ``m`` for a resource other than ``vcore``, and more than int64.
    """
    trimmed = text.strip()
    suffix = trimmed.lstrip(_DIGITS)
    digits = trimmed[: len(trimmed) - len(suffix)]
    suffix = suffix.lstrip(_BLANKS)
    if not digits or not _looks_like_suffix(suffix):
        raise _error("invalid quantity", name, text)
    factor = _factor(name, suffix)
    if factor is None:
        raise _error("invalid suffix", name, text)
    significant = digits.lstrip("0")
    if len(significant) > _MAX_DIGITS:
        raise _error("invalid quantity: overflow", name, text)
    value = int(significant or "0") * factor
    if value > INT64_MAX:
        raise _error("invalid quantity: overflow", name, text)
    return value


def quantities(name: str) -> str:
    """Description of the legal quantities of a resource, for error messages."""
    suffixes = [*(["m"] if name == VCORE else []), *filter(None, _FACTORS)]
    return f"a whole number, alone or with {', '.join(suffixes)}"


def print_quantity(name: str, value: int) -> str:
    """Shortest exact text of an amount, in the syntax of `parse_quantity`.

    Where the text is exact, memory has a binary suffix, and ``vcore`` is in whole cores. Negative amounts,
    which occur only in reports, get a sign.
    """
    sign, size = ("-", -value) if value < 0 else ("", value)
    if name == VCORE:
        return f"{sign}{size}m" if size % 1000 else f"{sign}{size // 1000}"
    if name == MEMORY and size:
        for suffix, factor in reversed(_BINARY.items()):
            if size % factor == 0:
                return f"{sign}{size // factor}{suffix}"
    return f"{sign}{size}"


def _looks_like_suffix(suffix: str) -> bool:
    return suffix == "" or (suffix[0] in _LETTERS and suffix[1:] in ("", "i"))


def _factor(name: str, suffix: str) -> int | None:
    """The factor of a suffix; None for a suffix that the resource does not have."""
    if name != VCORE:
        return _FACTORS.get(suffix)
    if suffix == "m":
        return 1
    factor = _FACTORS.get(suffix)
    return None if factor is None else factor * 1000


def _error(what: str, name: str, text: str) -> ConfigError:
    return ConfigError([Problem(message=f"{what} '{text}' for {name}")])


NO_AMOUNTS: Final = "none"


def print_amounts(size: Resources | None) -> str:
    """``memory=4Gi,vcore=2``, or ``none`` if there are no amounts."""
    if not size:
        return NO_AMOUNTS
    return ",".join(f"{name}={print_quantity(name, size[name])}" for name in sorted(size))
