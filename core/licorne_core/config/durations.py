"""Durations as Go writes them: ``30s``, ``1h5m``, ``1.5h`` (spec §§ 2.4, 2.8)."""

from licorne_core.values.patterns import Pattern

_UNITS = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek letter mu
    "ns": 1,
}
_DIGITS = "0123456789"
_SHAPE = Pattern(
    "[+-]?(0|(([0-9]{1,20}[.]?[0-9]{0,20}|[.][0-9]{1,20})(h|m|s|ms|us|µs|μs|ns)){1,20})"
)
_MAX_NANOSECONDS = 2**63 - 1


def parse_duration(text: str) -> float | None:
    """The duration in seconds; None for no duration, or one beyond int64 nanoseconds."""
    if not _SHAPE.matches(text):
        return None
    rest = text.lstrip("+-")
    total = 0
    while rest and rest != "0":
        after = rest.lstrip(_DIGITS + ".")
        whole, _, fraction = rest[: len(rest) - len(after)].partition(".")
        rest = after.lstrip("hmsuµμn")
        unit = _UNITS[after[: len(after) - len(rest)]]
        total += int(whole or "0") * unit
        total += int(fraction or "0") * unit // 10 ** len(fraction)
    if total > _MAX_NANOSECONDS:
        return None
    return (-total if text.startswith("-") else total) / 1e9
