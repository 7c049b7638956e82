"""Settings that an RM may send in addition to the queue configuration (spec § 2.8).

Also here:

* Durations as Go writes them: ``30s``, ``1h5m``, ``1.5h`` (spec §§ 2.4, 2.8).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from licorne_core.values.names import Pattern

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
_SHAPE = Pattern("[+-]?(0|(([0-9]{1,20}[.]?[0-9]{0,20}|[.][0-9]{1,20})(h|m|s|ms|us|µs|μs|ns)){1,20})")
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


_LEVELS = ("debug", "info", "warn", "error", "dpanic", "panic", "fatal")
_FIRST_LEVEL = -1  # levels may be given by number as well, debug being -1
_NUMBERED = {str(number): name for number, name in enumerate(_LEVELS, start=_FIRST_LEVEL)}

_LEVEL_OF_ALL, _LEVEL_BEGIN, _LEVEL_END = "log.level", "log.", ".level"
_COUNT = Pattern("[0-9]{1,7}")  # ten million events or more would fill the memory
_FLAGS = {word: word.lower() in ("1", "t", "true") for word in (
    "1", "t", "T", "true", "True", "TRUE", "0", "f", "F", "false", "False", "FALSE"
)}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraConfig:
    """Settings in ``extraConfig``.

    Without `event_tracking` no event is noted. The other `event_` settings are numbers of events,
    or of streams of events. `health_interval` is in seconds, 0 for off. With `state_aware_as_fifo`
    the sort policy ``stateaware`` means ``fifo``. `log_levels` maps logger names to one of debug,
    info, warn, error, dpanic, panic and fatal; the empty name is the level of all others.
    """

    event_tracking: bool = True
    event_request_capacity: int = 1000
    event_ring_capacity: int = 100_000
    event_max_streams: int = 100
    event_max_streams_per_host: int = 15
    event_response_size: int = 10_000
    health_interval: float = 30.0
    state_aware_as_fifo: bool = False
    log_levels: Mapping[str, str] = field(default_factory=dict)


def read_extra(extra: Mapping[str, str]) -> ExtraConfig:
    """Read the known keys; a value that cannot be understood counts as not given."""
    standard = ExtraConfig()

    def count(key: str, default: int) -> int:
        text = extra.get(key, "").strip()
        return int(text) if _COUNT.matches(text) and int(text) else default

    health = parse_duration(extra.get("health.checkInterval", "").strip())
    return ExtraConfig(
        event_tracking=_FLAGS.get(extra.get("event.trackingEnabled", "").strip(), True),
        event_request_capacity=count("event.requestCapacity", standard.event_request_capacity),
        event_ring_capacity=count("event.ringBufferCapacity", standard.event_ring_capacity),
        event_max_streams=count("event.maxStreams", standard.event_max_streams),
        event_max_streams_per_host=count("event.maxStreamsPerHost", standard.event_max_streams_per_host),
        event_response_size=count("event.RESTResponseSize", standard.event_response_size),
        health_interval=standard.health_interval if health is None else max(health, 0.0),
        state_aware_as_fifo=_FLAGS.get(extra.get("stateaware-as-fifo", "").strip(), False),
        log_levels=_log_levels(extra),
    )


def logger_of(key: str) -> str | None:
    """Logger of a log level key, empty for all others; None for any other key."""
    # Of thousands of keys each is looked at: an expression takes ten times as long.
    if key == _LEVEL_OF_ALL:
        return ""
    if not (key.startswith(_LEVEL_BEGIN) and key.endswith(_LEVEL_END)):
        return None
    return key[len(_LEVEL_BEGIN) : -len(_LEVEL_END)] or None


def _log_levels(extra: Mapping[str, str]) -> dict[str, str]:
    levels: dict[str, str] = {}
    for key, text in extra.items():
        logger = logger_of(key)
        if logger is not None:
            level = _level(text.strip().lower())
            if level:
                levels[logger] = level
    return levels


def _level(text: str) -> str:
    """The level's name, from name or number; empty for neither."""
    return text if text in _LEVELS else _NUMBERED.get(text, "")
