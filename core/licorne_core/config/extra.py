"""Settings that an RM may send in addition to the queue configuration (spec § 2.8).

Durations are written as in Go: ``30s``, ``1h5m``, ``1.5h``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from licorne_core.config.kinds import Key, Kind, section
from licorne_core.config.report import Similar
from licorne_core.features import modules
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
    """The duration in seconds; None if the text is no duration, or exceeds int64 nanoseconds."""
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
_FIRST_LEVEL = -1  # levels may also be numbers; debug is -1
_NUMBERED = {str(number): name for number, name in enumerate(_LEVELS, start=_FIRST_LEVEL)}

_LEVEL_OF_ALL, _LEVEL_BEGIN, _LEVEL_END = "log.level", "log.", ".level"
_COUNT = Pattern("[0-9]{1,7}")  # ten million events or more would fill the memory
_FLAGS = {word: word.lower() in ("1", "t", "true") for word in (
    "1", "t", "T", "true", "True", "TRUE", "0", "f", "F", "false", "False", "FALSE"
)}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraConfig:
    """Settings in ``extraConfig``.

    Without `event_tracking` no event is recorded. The other `event_` settings are numbers of events, or of
    streams of events. `health_interval` is in seconds; 0 turns it off. `flags` are the flags of features that
    are on. `log_levels` maps logger names to one of debug, info, warn, error, dpanic, panic and fatal; the
    empty name is the level of all others.
    """

    event_tracking: bool = True
    event_request_capacity: int = 1000
    event_ring_capacity: int = 100_000
    event_max_streams: int = 100
    event_max_streams_per_host: int = 15
    event_response_size: int = 10_000
    health_interval: float = 30.0
    flags: Mapping[str, bool] = field(default_factory=dict)
    log_levels: Mapping[str, str] = field(default_factory=dict)


_STANDARD = ExtraConfig()


class Flag(NamedTuple):
    """A flag of an extension, off by default: its key, meaning and section of the specification."""

    name: str
    what: str
    spec: str


class _Setting(NamedTuple):
    """A key of the extra configuration: its description, its setting, and the parser of its text."""

    key: Key
    setting: str
    read: Callable[[str], Any]
    """Returns None for a text that cannot be understood."""


def _flag(name: str, setting: str, what: str, spec: str = "2.8") -> _Setting:
    default = "true" if getattr(_STANDARD, setting) else "false"
    return _Setting(Key(name, Kind.FLAG, what, spec, default), setting, _FLAGS.get)


def _number(name: str, setting: str, what: str) -> _Setting:
    default = str(getattr(_STANDARD, setting))
    return _Setting(Key(name, Kind.INTEGER, what, "2.8", default, allowed="1 to 9999999"), setting, _count)


def _count(text: str) -> int | None:
    return (int(text) if _COUNT.matches(text) else 0) or None


def _interval(text: str) -> float | None:
    seconds = parse_duration(text)
    return None if seconds is None else max(seconds, 0.0)


_SETTINGS = (
    _flag(
        "event.trackingEnabled",
        "event_tracking",
        "false: no events are recorded, and asking for events is an error",
    ),
    _number(
        "event.ringBufferCapacity",
        "event_ring_capacity",
        "the number of events kept, the newest; while somebody watches there may be more",
    ),
    _number(
        "event.requestCapacity",
        "event_request_capacity",
        "the maximum number of events in one message to the RM",
    ),
    _number(
        "event.RESTResponseSize", "event_response_size", "the maximum number of events in one batch over REST"
    ),
    _number("event.maxStreams", "event_max_streams", "the maximum number of watchers of the RM's events"),
    _number(
        "event.maxStreamsPerHost",
        "event_max_streams_per_host",
        "the same for one peer: an identity, or a host where callers have none",
    ),
    _Setting(
        Key(
            "health.checkInterval",
            Kind.ANY_DURATION,
            "the interval of health checks; zero or less is off. Health is checked whenever it is requested",
            "2.8",
            default=f"{_STANDARD.health_interval:g}s",
            works=False,
        ),
        "health_interval",
        _interval,
    ),
)

_ALLOWED_LEVELS = f"{', '.join(f'`{level}`' for level in _LEVELS)}, or a number from -1 to 5"


def _flags() -> dict[str, Key]:
    """The keys of the flags that features declare."""
    flags = (flag for _, module in modules("keys") for flag in getattr(module, "FLAGS", ()))
    return {flag.name: Key(flag.name, Kind.FLAG, flag.what, flag.spec, "false") for flag in flags}


_OF_FEATURES = _flags()

EXTRA = section(
    *_OF_FEATURES.values(),
    *(each.key for each in _SETTINGS),
    Key("log.level", Kind.TEXT, "the least level of lines that are written", "2.8", allowed=_ALLOWED_LEVELS),
    Key(
        "log.<logger>.level",
        Kind.TEXT,
        "the same for one logger and those below it. A logger that the server does not have "
        "is ignored, with a line in the log",
        "2.8",
        allowed=_ALLOWED_LEVELS,
    ),
)
"""Keys that an RM may send in addition to the queues."""


def meant_key(key: str) -> str:
    """The supported key that is probably meant; empty for a supported key, and for other programs' keys."""
    return Similar().to(key, tuple(EXTRA))


def read_extra(extra: Mapping[str, str]) -> ExtraConfig:
    """Read the supported keys; an invalid value counts as missing."""
    read = {setting: read(extra.get(key.name, "").strip()) for key, setting, read in _SETTINGS}
    given = {setting: value for setting, value in read.items() if value is not None}
    flags = {name: True for name in _OF_FEATURES if _FLAGS.get(extra.get(name, "").strip())}
    return ExtraConfig(**given, flags=flags, log_levels=_log_levels(extra))


def logger_of(key: str) -> str | None:
    """Logger of a log level key, empty for the level of all others; None for any other key."""
    # There may be thousands of keys: a regular expression takes ten times as long.
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
    """The level's name, from name or number; empty if the text is neither."""
    return text if text in _LEVELS else _NUMBERED.get(text, "")
