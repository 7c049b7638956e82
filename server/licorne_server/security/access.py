"""Rights of callers over RMs, by certificate or token; denied by default.

Without client certificates and tokens there are no identities, and everyone who can reach the port has all
rights. Use this only on loopback, or in a network that is trusted as a whole.

An operator sees and changes everything, a viewer sees everything, and an RM sees and changes only its own
state. If callers have certificates, a viewer may use a token over HTTPS instead: browsers handle a token more
easily than a certificate.

A refusal is the same for a registered and an unknown RM, so refusals do not reveal which RMs exist.

A caller is checked when it opens a stream. The stream records the required rights. Its caller is checked
again whenever rights are revoked, and the stream ends if the caller has lost a required right.
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
    """Relevant names of the caller's certificate, or rmIDs of its token."""
    operator: bool
    """True if the caller may see and configure every RM."""
    peer: str
    """Owner of the caller's quotas: its identity, or its host without one."""
    viewer: bool = False
    """True if the caller may see every RM."""

    @property
    def sees_all(self) -> bool:
        """True if the caller may see every RM, as an operator or as a viewer."""
        return self.operator or self.viewer


class Authenticated:
    """The context of a call whose caller is authenticated already: `caller` is its identity."""

    caller: Caller


class PassedOn(Authenticated):
    """The context of a call that another member passes on, and has authenticated."""

    def when_leaving(self, leave: Callable[[str, float], object]) -> None:
        """Register a callback for the stop of the other member, with the reason and the seconds to wait."""
        raise NotImplementedError


Right = Callable[[Caller, str], str]
"""Returns the reason why a caller has no right to a subject, such as an RM; empty if it has the right."""


class Opening:
    """An open stream."""

    end: Callable[[CallError], None]
    """Ends the stream with an error."""

    def __init__(self, end: Callable[[CallError], None]) -> None:
        """Start without rights: only an identity is needed."""
        self.end = end
        self._needed: set[tuple[Right, str]] = set()

    def needs(self, right: Right, subject: str) -> None:
        """Record that the stream needs a right to a subject for as long as it is open."""
        self._needed.add((right, subject))

    def problem(self, caller: Caller | None) -> CallError | None:
        """The error that ends the stream if its caller's current rights do not suffice; None if they do."""
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


class Roles:
    """Rights of callers, by the names in their certificate or token."""

    def __init__(
        self,
        identities: Mapping[str, frozenset[str]],
        operators: frozenset[str],
        viewers: frozenset[str],
        *,
        enforced: bool,
    ) -> None:
        """See `Access`; unless `enforced`, every caller may act for every RM."""
        self._identities = identities
        self._operators = operators
        self._viewers = viewers
        self._enforced = enforced

    def certified(self, names: frozenset[str]) -> Caller:
        """The caller with a valid certificate that has these names."""
        peer = f"certificate {' '.join(sorted(names))}"
        return Caller(names, bool(names & self._operators), peer, bool(names & self._viewers))

    def own_rms(self, caller: Caller) -> list[str]:
        """RmIDs that the caller may act for, registered or not, in order."""
        named = {rm_id for rm_id, names in self._identities.items() if caller.names & names}
        return sorted(named | (caller.names - self._identities.keys()))

    def may_read(self, caller: Caller, rm_id: str) -> bool:
        """True if the caller may see the RM: the RM itself, an operator, or a viewer."""
        return caller.sees_all or self._is_of(caller, rm_id)

    def acting(self, caller: Caller, rm_id: str) -> str:
        """Reason why the caller may not act for an RM; empty if it may."""
        if self._enforced and not self._is_of(caller, rm_id):
            return f"{_as_viewer(caller)}may not act for RM {shown(rm_id)}"
        return ""

    def changing(self, caller: Caller, rm_id: str) -> str:
        """Reason why a viewer may not configure an RM that it may see; empty for other callers."""
        if caller.viewer and not self._is_of(caller, rm_id):
            return operating(caller, "")
        return ""

    def reading(self, caller: Caller, rm_id: str) -> str:
        """Reason why the caller may not see an RM; empty if it may."""
        return "" if self.may_read(caller, rm_id) else f"may not see RM {shown(rm_id)}"

    def _is_of(self, caller: Caller, rm_id: str) -> bool:
        return bool(caller.names & self._identities.get(rm_id, frozenset({rm_id})))


def operating(caller: Caller, _: str) -> str:
    """Reason why the caller is no operator; empty for an operator."""
    if caller.operator:
        return ""
    return "of a viewer may see everything and change nothing" if caller.viewer else "is no operator's"


def viewing(caller: Caller, _: str) -> str:
    """Reason why the caller is neither an operator nor a viewer; empty if it is one."""
    return "" if caller.sees_all else operating(caller, "")


def _as_viewer(caller: Caller) -> str:
    """Words for refusals of a viewer; empty for other callers."""
    return "of a viewer " if caller.viewer else ""


class Access:
    """Checks callers against the identities that are allowed for RMs."""

    openings: Openings
    """All open streams."""

    def __init__(
        self,
        *,
        enforced: bool = False,
        identities: Mapping[str, frozenset[str]] | None = None,
        operators: frozenset[str] = frozenset(),
        viewers: frozenset[str] = frozenset(),
        tokens: Tokens | None = None,
    ) -> None:
        """`identities` has the certificate names that may act for an RM, by rmID.

        RMs that it does not name need a certificate in their own name. `operators` may see and configure
        every RM, `viewers` may see every RM. Certificates are checked only if `enforced`. With `tokens` every
        caller must have a token; if certificates are checked, a token replaces a certificate only over HTTPS.
        """
        self._certificates = enforced
        self._tokens = tokens
        self._roles = Roles(identities or {}, operators, viewers, enforced=enforced or tokens is not None)
        self.openings = Openings()
        # Open streams over gRPC, by their contexts.
        self._streams: dict[Any, Opening] = {}

    @classmethod
    def by(cls, settings: Settings) -> "Access":
        """The rights that the settings define.

        Raises:
            SettingsError: a file with tokens is unusable.
        """
        return cls(
            enforced=settings.tls is not None and settings.tls.client_ca is not None,
            identities=settings.rm_identities,
            operators=settings.operators,
            viewers=settings.viewers,
            tokens=tokens_in(settings.rm_tokens, settings.operator_tokens, settings.viewer_tokens),
        )

    def caller(self, context: Any) -> Caller:
        """The caller of a call.

        Raises:
            CallError: UNAUTHENTICATED, there is no known token.
        """
        if isinstance(context, Authenticated):
            return context.caller
        if self.by_token:
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
        return self._tokens is not None and not self._certificates

    @property
    def by_certificate(self) -> bool:
        """True if every caller must have a certificate, or over HTTPS a token if there are tokens."""
        return self._certificates

    @property
    def has_tokens(self) -> bool:
        """True if there are tokens, even if only in place of certificates."""
        return self._tokens is not None

    def bearer(self, authorizations: Sequence[str]) -> Caller | None:
        """Owner of the token in `authorization` values; None unless there is one value with a valid token."""
        if self._tokens is None or len(authorizations) != 1:
            return None
        return _bearer(self._tokens.grant(authorizations[0]))

    def reload(self) -> None:
        """Read token files again, and end the streams of callers that have lost a required right."""
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
        """Replace the function that ends the open stream of this context."""
        if context in self._streams:
            self._streams[context].end = end

    def certified(self, names: frozenset[str]) -> Caller:
        """The caller with a valid certificate that has these names."""
        return self._roles.certified(names)

    def anybody(self, host: str) -> Caller:
        """The caller from a host, for servers without identities, where every caller may do everything."""
        return Caller(frozenset(), True, peer_of(host))

    def check_rm(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that may not act for the RM.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, self._roles.acting, rm_id)

    def may_read(self, caller: Caller, rm_id: str) -> bool:
        """True if the caller may see the RM: the RM itself, an operator, or a viewer."""
        return self._roles.may_read(caller, rm_id)

    def check_read(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that may not see the RM.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, self._roles.reading, rm_id)

    def check_change(self, context: Any, rm_id: str) -> None:
        """Refuse a viewer, which may see the RM but not configure it.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, self._roles.changing, rm_id)

    def check_viewer(self, context: Any) -> None:
        """Refuse a peer that is neither an operator nor a viewer.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, viewing, "")

    def check_operator(self, context: Any) -> None:
        """Refuse a peer that is no operator.

        Raises:
            CallError: PERMISSION_DENIED, or UNAUTHENTICATED.
        """
        self._check(context, operating, "")

    def own_rms(self, caller: Caller) -> list[str]:
        """RmIDs that the caller may act for, registered or not, in order."""
        return self._roles.own_rms(caller)

    def _check(self, context: Any, right: Right, subject: str) -> None:
        """Refuse a caller without a right to a subject. An open stream needs the right until it ends."""
        caller = self.caller(context)
        denied = right(caller, subject)
        if denied:
            reason = f"this {'token' if self.by_token else 'certificate'} {denied}"
            log.warning("denied", peer=context.peer(), names=sorted(caller.names), reason=reason)
            raise permission_denied(reason)
        if context in self._streams:
            self._streams[context].needs(right, subject)


def _bearer(grant: Grant | None) -> Caller | None:
    return None if grant is None else Caller(grant.rms, grant.operator, grant.peer, grant.viewer)


def _names(context: Any) -> frozenset[str]:
    """Names in the peer's certificate.

    The common name counts only if there are no alternative names of any kind.
    """
    properties = context.auth_context()
    names = {_text(value) for kind in _ALTERNATIVE_NAMES for value in properties.get(kind, ())}
    if names:
        return frozenset(names - {_OTHER_KINDS})
    return frozenset(map(_text, properties.get(_COMMON_NAME, ())))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
