"""The digest of all decisions, equal for the server that wrote a journal and for its replay.

It covers only decisions of the core: registrations and configurations, accepted and rejected nodes,
applications and asks, states of applications, allocations with their nodes, releases, checks sent to an RM
(including those of reservations), asks that wait for a larger cluster, and outcomes of operators' commands.
Texts for people are left out, and so are times, which are inputs.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    ApplicationUpdate,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Happened,
    NodesAnswered,
    NotRegistered,
    OperatorRefused,
    PredicatesAsked,
    PreemptionsAsked,
    Registered,
    RegistrationFailed,
    ReplayEnded,
    Unfinished,
)
from licorne_core.values.asks import Allocation
from licorne_server.engine.journal.forms import Convert, packer
from licorne_server.wire.features import rows, table

BYTES = 16
"""Length of a digest in bytes."""

MOST_PARTS = 512
"""Number of effects that are hashed together, which is faster than one by one."""


def _rows(*paths: str) -> Convert:
    get = packer(dict.fromkeys(paths))
    return lambda values: list(map(get, values))


def _placed(allocations: Sequence[Allocation]) -> list[tuple[str, str, str]]:
    return [(one.ask.app_id, one.ask.key, one.node_id) for one in allocations]


def _entered(updates: Sequence[ApplicationUpdate]) -> list[tuple[str, str]]:
    return [(one.app_id, one.state) for one in updates]


SUMMED: dict[type, dict[str, Convert | None]] = {
    AllocationsMade: {"partition": None, "allocations": _placed},
    AllocationsReleased: {"partition": None, "releases": _rows("app_id", "key", "termination")},
    AllocationsRejected: {"rejections": _rows("item", "app_id", "key", "code")},
    ApplicationsAnswered: {"accepted": list, "rejected": _rows("app_id", "code")},
    ApplicationsUpdated: {"updates": _entered},
    NodesAnswered: {"accepted": list, "rejected": _rows("node_id", "code")},
    PredicatesAsked: {"partition": None, "checks": list},
    PreemptionsAsked: {"partition": None, "checks": list},
    Registered: {"session": None},
    RegistrationFailed: {},
    NotRegistered: {},
    ConfigurationUpdated: {"changed": None},
    ConfigurationRefused: {},
    ReplayEnded: {"missing": None},
    OperatorRefused: {"refusal": None},
    **table("SUMMED"),
}
_PACKS = {kind: (kind.__name__, packer({"rm_id": None, **columns})) for kind, columns in SUMMED.items()}

LEFT_OUT = frozenset({Unfinished, Happened, *rows("NOT_SUMMED")})
"""Effects without a decision: unfinished commands, facts for people, and similar effects of extensions."""

_encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode


class DigestOf:
    """A running digest of effects."""

    def __init__(self) -> None:
        """Begin with no effects."""
        self._sum = blake2b(digest_size=BYTES)
        self._parts: list[bytes] = []

    def saw(self, effects: Sequence[Effect]) -> None:
        """Add the effects of one command, or the effects before the failure of a `TickFailed`."""
        parts = self._parts
        for effect in effects:
            pack = _PACKS.get(type(effect))
            if pack is not None:
                parts.append(_encode((pack[0], pack[1](effect))))
        if len(parts) > MOST_PARTS:
            self._add()

    def value(self) -> bytes:
        """The digest so far, as bytes."""
        self._add()
        return self._sum.digest()

    def _add(self) -> None:
        self._sum.update(b"".join(self._parts))
        self._parts.clear()
