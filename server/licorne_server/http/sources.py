"""What the HTTP listener reads. `app` makes it and hands it over."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from licorne_core.config.extra import ExtraConfig
from licorne_core.ids import RmId
from licorne_core.views import Views
from licorne_server.access import Access
from licorne_server.config_thread import ConfigThread
from licorne_server.event_log import EventLogs
from licorne_server.history import Sample
from licorne_server.share import Share


@dataclass(slots=True)
class Status:
    """The state of the server, for the probes."""

    started: bool = False
    draining: bool = False
    failure: str = ""
    """Why nothing is scheduled any more; empty while all is well."""
    stall: str = ""
    """Why nothing is scheduled for now; empty while all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmFigures:
    """One RM's connection; `resyncs` counts the replays that an overflow of its outbox cost."""

    rm_id: RmId
    connected: bool
    outbox_messages: int = 0
    outbox_bytes: int = 0
    resyncs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The server in numbers, counted from its start where nothing else is said."""

    rms: tuple[RmFigures, ...] = ()
    rms_forgotten: int = 0
    memory: int = 0
    """Bytes of resident memory now."""
    memory_limit: int = 0
    """Bytes; 0 for none."""
    shortage: int = 0
    """What is refused for want of memory now: 0 nothing, 1 new work, 2 everything."""
    inbox: int = 0
    """Commands that wait now."""
    commands: int = 0
    turns: int = 0
    turn_seconds: float = 0.0
    defects: int = 0
    log_lines_dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason, in the whole process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the answers are made from. Times are in unix seconds."""

    views: Views
    status: Status
    started_time: float
    now: Callable[[], float]
    rm_state: Callable[[RmId], Awaitable[str]]
    """Asks an RM for what it adds to a state dump: a JSON document, which may tell of an error."""
    access: Access = field(default_factory=Access)
    """Who may see what; everybody may see everything unless it says otherwise."""
    cors_origins: frozenset[str] = frozenset()
    """The origins whose pages may read; ``*`` for all."""
    log_level: str = "info"
    figures: Callable[[], Figures] = Figures
    config_thread: ConfigThread = field(default_factory=ConfigThread)
    history: deque[Sample] = field(default_factory=deque)
    events: EventLogs = field(default_factory=lambda: EventLogs(lambda _: ExtraConfig()))
    share: Share = field(default_factory=lambda: Share(lambda: False))
