"""Who may speak for which RM. With mutual TLS the peer's certificate decides; the default is no.

Without client certificates there are no identities, and whoever can reach the port may do
everything. That is for loopback, or for a network that is trusted as a whole.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from licorne_core.errors import shown
from licorne_server.errors import permission_denied

log = structlog.get_logger(__name__)
_NAME_PROPERTIES = ("peer_spiffe_id", "x509_subject_alternative_name", "x509_common_name")


class Access:
    """Checks the peer of a call against the identities that its RM may have."""

    def __init__(
        self,
        *,
        enforced: bool = False,
        identities: Mapping[str, frozenset[str]] | None = None,
        operators: frozenset[str] = frozenset(),
    ) -> None:
        """`identities` has the certificate names that may act for an RM, by rmID.

        An RM that is not in it needs a certificate in its own name. `operators` may see and
        configure every RM. Nothing is checked unless it is `enforced`.
        """
        self._enforced = enforced
        self._identities = identities or {}
        self._operators = operators

    def check_rm(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that may not act for the RM.

        Raises:
            CallError: PERMISSION_DENIED.
        """
        if self._enforced and not self._names(context) & self._allowed(rm_id):
            self._deny(context, f"this certificate may not act for RM {shown(rm_id)}")

    def may_read(self, context: Any, rm_id: str) -> bool:
        """Whether the peer may see and configure the RM: as the RM itself, or as an operator."""
        if not self._enforced:
            return True
        return bool(self._names(context) & (self._allowed(rm_id) | self._operators))

    def check_read(self, context: Any, rm_id: str) -> None:
        """Refuse a peer that `may_read` does not allow.

        Raises:
            CallError: PERMISSION_DENIED.
        """
        if not self.may_read(context, rm_id):
            self._deny(context, f"this certificate may not see RM {shown(rm_id)}")

    def _allowed(self, rm_id: str) -> frozenset[str]:
        return self._identities.get(rm_id, frozenset({rm_id}))

    def _deny(self, context: Any, reason: str) -> None:
        log.warning(
            "denied", peer=context.peer(), names=sorted(self._names(context)), reason=reason
        )
        raise permission_denied(reason)

    @staticmethod
    def _names(context: Any) -> frozenset[str]:
        properties = context.auth_context()
        return frozenset(
            value.decode(errors="replace")
            for name in _NAME_PROPERTIES
            for value in properties.get(name, ())
        )
