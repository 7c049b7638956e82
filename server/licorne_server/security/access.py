"""Rights of callers over RMs, by their certificates or tokens; the default is no.

Without client certificates and without tokens there are no identities, and everyone who can reach
the port may do everything. That is for loopback, or for a network that is trusted as a whole.

A refusal is the same for an RM that is registered and for one that is not. So refusals reveal no
RMs.

A caller is checked when it opens a stream. The stream records the rights that it needed, and is
checked again whenever rights have been withdrawn: it ends if one of them is gone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from licorne_core.values.errors import shown
from licorne_server.process.bounds import host_of, peer_of
from licorne_server.security.tokens import Grant, Tokens
from licorne_server.wire.errors import CallError, permission_denied, unauthenticated

log = structlog.get_logger("core.access")

WHY = "the tokens were read again"

_ALTERNATIVE_NAMES = ("peer_spiffe_id", "x509_subject_alternative_name")
_COMMON_NAME = "x509_common_name"
_OTHER_KINDS = "other types of SAN"
"""gRPC's placeholder for an alternative name that is no DNS name, URI, address or e-mail."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a caller."""

    names: frozenset[str]
    """The names in its certificate that count, or the RMs that its token is of."""
    operator: bool
    """True if it may see and configure every RM."""
    peer: str
    """The owner of its quotas: its identity, or its host if it has none."""


Right = Callable[[Caller, str], str]
"""The reason against a caller's right to a subject, such as an RM; empty if the caller has it."""


class Opening:
    """One stream that is open."""

    end: Callable[[CallError], None]
    """Ends the stream with an error."""

    def __init__(self, end: Callable[[CallError], None]) -> None:
        """Record no right yet: the identity alone was needed."""
        self.end = end
        self._needed: set[tuple[Right, str]] = set()

    def needs(self, right: Right, subject: str) -> None:
        """Its caller needs a right to a subject for as long as it is open."""
        self._needed.add((right, subject))

    def problem(self, caller: Caller | None) -> CallError | None:
        """The reason to end it, given its caller's present rights; None if it can stay open."""
        if caller is None:
            return unauthenticated(f"the token that opened this does not count any more: {WHY}")
        for right, subject in self._needed:
            denied = right(caller, subject)
            if denied:
                return permission_denied(f"this token {denied} any more: {WHY}")
        return None


class Openings:
    """All streams that are open, by the peer that has opened them."""

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
        """End the streams of a peer that its rights no longer allow; returns their number."""
        ended = 0
        for opening in tuple(self._open.get(peer, ())):
            problem = opening.problem(caller)
            if problem is not None:
                opening.end(problem)
                ended += 1
        return ended


class Access:
    """Checks the peer of a call against the identities that its RM may have."""

    openings: Openings
    """The streams that are open."""

    def __init__(
        self,
        *,
        enforced: bool = False,
        identities: Mapping[str, frozenset[str]] | None = None,
        operators: frozenset[str] = frozenset(),
        tokens: Tokens | None = None,
    ) -> None:
        """`identities` has the certificate names that may act for an RM, by rmID.

        An RM that is not in it needs a certificate in its own name. `operators` may see and
        configure every RM. No certificate is checked unless that is `enforced`. With `tokens`
        every caller must have one of them.
        """
        self._certificates = enforced
        self._identities = identities or {}
        self._operators = operators
        self._tokens = tokens
        self.openings = Openings()
        # The streams of gRPC among them, by context.
        self._streams: dict[Any, Opening] = {}
        self._enforced = enforced or tokens is not None

    def caller(self, context: Any) -> Caller:
        """The caller of a call.

        Raises:
            CallError: UNAUTHENTICATED, there is no known token.
        """
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
        """The owner of that token; None unless there is one, and it is known."""
        if self._tokens is None or len(authorizations) != 1:
            return None
        return _bearer(self._tokens.grant(authorizations[0]))

    def reload(self) -> None:
        """Read the files of tokens again, and end the streams of revoked rights."""
        if self._tokens is not None:
            lost = self._tokens.reload()
            ended = sum(self.openings.review(peer, _bearer(left)) for peer, left in lost.items())
            if ended:
                log.warning("streams of revoked tokens ended", streams=ended)

    @contextmanager
    def opened(self, context: Any, end: Callable[[CallError], None]) -> Iterator[None]:
        """Inside the block a stream is open; `end` ends it once its caller may not have it.

        It needs whatever is checked for its context inside.

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
        """The open stream of that context has another way to end from now on."""
        if context in self._streams:
            self._streams[context].end = end

    def certified(self, names: frozenset[str]) -> Caller:
        """The owner of a checked certificate with these names."""
        peer = f"certificate {' '.join(sorted(names))}"
        return Caller(names, bool(names & self._operators), peer)

    def anybody(self, host: str) -> Caller:
        """A caller from that host, where callers have no identity and may do everything."""
        return Caller(frozenset(), True, peer_of(host))

    def check_rm(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that may not act for the RM.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, self._acting, rm_id)

    def may_read(self, caller: Caller, rm_id: str) -> bool:
        """True if the caller may see and configure the RM: as the RM itself, or as an operator."""
        return caller.operator or bool(caller.names & self._allowed(rm_id))

    def check_read(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that `may_read` does not allow.

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
        """The rmIDs that the caller may act for, registered or not, in order."""
        named = {rm_id for rm_id, names in self._identities.items() if caller.names & names}
        return sorted(named | (caller.names - self._identities.keys()))

    def _allowed(self, rm_id: str) -> frozenset[str]:
        return self._identities.get(rm_id, frozenset({rm_id}))

    def _check(self, context: Any, right: Right, subject: str) -> None:
        """Refuse a peer without a right to a subject; a stream needs it as long as it is open."""
        caller = self.caller(context)
        denied = right(caller, subject)
        if denied:
            reason = f"this {'token' if self._tokens else 'certificate'} {denied}"
            log.warning("denied", peer=context.peer(), names=sorted(caller.names), reason=reason)
            raise permission_denied(reason)
        if context in self._streams:
            self._streams[context].needs(right, subject)

    def _acting(self, caller: Caller, rm_id: str) -> str:
        """The reason against acting for an RM; empty if the caller may."""
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
    """The names in the peer's certificate.

    The common name counts only where there are no alternative names of any kind.
    """
    properties = context.auth_context()
    names = {_text(value) for kind in _ALTERNATIVE_NAMES for value in properties.get(kind, ())}
    if names:
        return frozenset(names - {_OTHER_KINDS})
    return frozenset(map(_text, properties.get(_COMMON_NAME, ())))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
