"""Rights of callers over RMs, by certificate or token; denied by default.

Without client certificates and tokens there are no identities, and everyone who can reach the port
may do everything. That is for loopback, or for a network that is trusted as a whole.

A refusal is the same for a registered and an unknown RM, so refusals do not reveal which RMs exist.

A caller is checked when it opens a stream. The stream records the rights that it needed. Its caller
is checked again whenever rights were revoked, and the stream ends if one of its rights was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from licorne_core.values.errors import shown
from licorne_server.process.bounds import host_of, peer_of
from licorne_server.process.settings import Settings
from licorne_server.security.tokens import Grant, Tokens, tokens_in
from licorne_server.wire.errors import CallError, permission_denied, unauthenticated

log = structlog.get_logger("core.access")

WHY = "the tokens were read again"

_ALTERNATIVE_NAMES = ("peer_spiffe_id", "x509_subject_alternative_name")
_COMMON_NAME = "x509_common_name"
_OTHER_KINDS = "other types of SAN"
"""gRPC's placeholder for an alternative name that is no DNS name, URI, address or e-mail."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Identity of a caller."""

    names: frozenset[str]
    """Relevant names of its certificate, or rmIDs of its token."""
    operator: bool
    """True if it may see and configure every RM."""
    peer: str
    """Owner of its quotas: its identity, or its host without one."""


class PassedOn:
    """The context of a call that another member passes on, and has authenticated."""

    caller: Caller

    def when_leaving(self, leave: Callable[[str, float], object]) -> None:
        """Call it with a reason and the seconds to stay away, once the other member is about to stop."""
        raise NotImplementedError


Right = Callable[[Caller, str], str]
"""Returns the reason why a caller has no right to a subject, such as an RM; empty if it has."""


class Opening:
    """An open stream."""

    end: Callable[[CallError], None]
    """Ends the stream with an error."""

    def __init__(self, end: Callable[[CallError], None]) -> None:
        """Start without rights: only the identity was needed."""
        self.end = end
        self._needed: set[tuple[Right, str]] = set()

    def needs(self, right: Right, subject: str) -> None:
        """Record that the stream needs a right to a subject for as long as it is open."""
        self._needed.add((right, subject))

    def problem(self, caller: Caller | None) -> CallError | None:
        """The error that ends the stream, given its caller's present rights; None for none."""
        if caller is None:
            return unauthenticated(f"the token that opened this does not count any more: {WHY}")
        for right, subject in self._needed:
            denied = right(caller, subject)
            if denied:
                return permission_denied(f"this token {denied} any more: {WHY}")
        return None


class Openings:
    """All open streams, by peer."""

    def __init__(self) -> None:
        """Start without open streams."""
        self._open: dict[str, set[Opening]] = {}

    @contextmanager
    def of(self, peer: str, end: Callable[[CallError], None]) -> Iterator[Opening]:
        """Register a stream of the peer inside the block."""
        opening = Opening(end)
        opened = self._open.setdefault(peer, set())
        opened.add(opening)
        try:
            yield opening
        finally:
            opened.discard(opening)
            if not opened:
                self._open.pop(peer, None)

    def review(self, peer: str, caller: Caller | None) -> int:
        """End the streams of a peer that are no longer allowed; returns their number."""
        ended = 0
        for opening in tuple(self._open.get(peer, ())):
            problem = opening.problem(caller)
            if problem is not None:
                opening.end(problem)
                ended += 1
        return ended


class Access:
    """Checks peers of calls against the identities allowed for RMs."""

    openings: Openings
    """All open streams."""

    def __init__(
        self,
        *,
        enforced: bool = False,
        identities: Mapping[str, frozenset[str]] | None = None,
        operators: frozenset[str] = frozenset(),
        tokens: Tokens | None = None,
    ) -> None:
        """`identities` has the certificate names that may act for an RM, by rmID.

        Other RMs need a certificate in their own name. `operators` may see and configure every RM.
        Certificates are checked only if `enforced`. With `tokens` every caller must have one of
        them.
        """
        self._certificates = enforced
        self._identities = identities or {}
        self._operators = operators
        self._tokens = tokens
        self.openings = Openings()
        # Open streams over gRPC, by context.
        self._streams: dict[Any, Opening] = {}
        self._enforced = enforced or tokens is not None

    @classmethod
    def by(cls, settings: Settings) -> "Access":
        """The access that the settings give.

        Raises:
            SettingsError: a file with tokens is unusable.
        """
        return cls(
            enforced=settings.tls is not None and settings.tls.client_ca is not None,
            identities=settings.rm_identities,
            operators=settings.operators,
            tokens=tokens_in(settings.rm_tokens, settings.operator_tokens),
        )

    def caller(self, context: Any) -> Caller:
        """The caller of a call.

        Raises:
            CallError: UNAUTHENTICATED, there is no known token.
        """
        if isinstance(context, PassedOn):
            return context.caller
        if self._tokens is not None:
            given = [value for key, value in context.invocation_metadata() if key == "authorization"]
            caller = self.bearer([str(value) for value in given])
            if caller is None:
                log.warning("not authenticated", peer=context.peer())
                raise unauthenticated("a valid token is needed")
            return caller
        if not self._certificates:
            return self.anybody(host_of(context.peer()))
        return self.certified(_names(context))

    @property
    def by_token(self) -> bool:
        """True if every caller must have a token."""
        return self._tokens is not None

    @property
    def by_certificate(self) -> bool:
        """True if every caller must have a certificate."""
        return self._certificates and not self.by_token

    def bearer(self, authorizations: Sequence[str]) -> Caller | None:
        """Owner of the token in `authorization` values; None unless there is exactly one, and known."""
        if self._tokens is None or len(authorizations) != 1:
            return None
        return _bearer(self._tokens.grant(authorizations[0]))

    def reload(self) -> None:
        """Read token files again, and end streams of revoked rights."""
        if self._tokens is not None:
            lost = self._tokens.reload()
            ended = sum(self.openings.review(peer, _bearer(left)) for peer, left in lost.items())
            if ended:
                log.warning("streams of revoked tokens ended", streams=ended)

    @contextmanager
    def opened(self, context: Any, end: Callable[[CallError], None]) -> Iterator[None]:
        """Register an open stream inside the block; `end` ends it when its rights are revoked.

        The stream needs all rights that are checked for its context inside the block.

        Raises:
            CallError: UNAUTHENTICATED, there is no known token.
        """
        with self.openings.of(self.caller(context).peer, end) as opening:
            self._streams[context] = opening
            try:
                yield
            finally:
                del self._streams[context]

    def ended_by(self, context: Any, end: Callable[[CallError], None]) -> None:
        """Replace the function that ends the open stream of a context."""
        if context in self._streams:
            self._streams[context].end = end

    def certified(self, names: frozenset[str]) -> Caller:
        """Caller with a valid certificate of these names."""
        peer = f"certificate {' '.join(sorted(names))}"
        return Caller(names, bool(names & self._operators), peer)

    def anybody(self, host: str) -> Caller:
        """Caller from a host, for servers where callers have no identity and may do everything."""
        return Caller(frozenset(), True, peer_of(host))

    def check_rm(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that may not act for the RM.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, self._acting, rm_id)

    def may_read(self, caller: Caller, rm_id: str) -> bool:
        """True if the caller may see and configure the RM: the RM itself, or an operator."""
        return caller.operator or bool(caller.names & self._allowed(rm_id))

    def check_read(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that may not see and configure the RM.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, self._reading, rm_id)

    def check_operator(self, context: Any) -> None:
        """Refuse a peer that is no operator.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, _operating, "")

    def own_rms(self, caller: Caller) -> list[str]:
        """RmIDs that the caller may act for, registered or not, in order."""
        named = {rm_id for rm_id, names in self._identities.items() if caller.names & names}
        return sorted(named | (caller.names - self._identities.keys()))

    def _allowed(self, rm_id: str) -> frozenset[str]:
        return self._identities.get(rm_id, frozenset({rm_id}))

    def _check(self, context: Any, right: Right, subject: str) -> None:
        """Refuse a peer without a right to a subject; a stream needs the right while open."""
        caller = self.caller(context)
        denied = right(caller, subject)
        if denied:
            reason = f"this {'token' if self._tokens else 'certificate'} {denied}"
            log.warning("denied", peer=context.peer(), names=sorted(caller.names), reason=reason)
            raise permission_denied(reason)
        if context in self._streams:
            self._streams[context].needs(right, subject)

    def _acting(self, caller: Caller, rm_id: str) -> str:
        """Reason why the caller may not act for an RM; empty if it may."""
        if self._enforced and not caller.names & self._allowed(rm_id):
            return f"may not act for RM {shown(rm_id)}"
        return ""

    def _reading(self, caller: Caller, rm_id: str) -> str:
        return "" if self.may_read(caller, rm_id) else f"may not see RM {shown(rm_id)}"


def _operating(caller: Caller, _: str) -> str:
    return "" if caller.operator else "is no operator's"


def _bearer(grant: Grant | None) -> Caller | None:
    return None if grant is None else Caller(grant.rms, grant.operator, grant.peer)


def _names(context: Any) -> frozenset[str]:
    """Names in the peer's certificate.

    The common name counts only without alternative names of any kind.
    """
    properties = context.auth_context()
    names = {_text(value) for kind in _ALTERNATIVE_NAMES for value in properties.get(kind, ())}
    if names:
        return frozenset(names - {_OTHER_KINDS})
    return frozenset(map(_text, properties.get(_COMMON_NAME, ())))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
