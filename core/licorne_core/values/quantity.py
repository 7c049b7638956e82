"""Amounts as people write them: ``10Gi`` and ``500m`` to integers and back (spec § 2.2)."""

from licorne_core.values.errors import ConfigError, Problem
from licorne_core.values.resources import INT64_MAX

VCORE = "vcore"
MEMORY = "memory"

_DIGITS = "0123456789"
_BLANKS = " \t\n\f\r"
_LETTERS = "mkKMGTPE"
_MAX_DIGITS = len(str(INT64_MAX))
_DECIMAL = {letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)}
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_FACTORS = {"": 1, **_DECIMAL, **_BINARY}


def parse_quantity(name: str, text: str) -> int:
    """The amount of the resource that the text says: milli-cores for ``vcore``, else units.

    Blanks around the text and before the suffix are allowed; a sign, a fraction, an unknown
    suffix, ``m`` for anything but ``vcore`` and more than int64 are each a `ConfigError`.
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


def print_quantity(name: str, value: int) -> str:
    """The amount as `parse_quantity` reads it, as short as it can be without rounding.

    Memory gets a binary suffix and ``vcore`` whole cores where they are exact. Negative amounts,
    which only reports know, get a sign.
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
    """Multiplier of the number; None for a suffix that is not this resource's."""
    if name != VCORE:
        return _FACTORS.get(suffix)
    if suffix == "m":
        return 1
    factor = _FACTORS.get(suffix)
    return None if factor is None else factor * 1000


def _error(what: str, name: str, text: str) -> ConfigError:
    return ConfigError([Problem(message=f"{what} '{text}' for {name}")])
