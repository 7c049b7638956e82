"""The secret of a deployment, with which its members authenticate each other."""

import hmac
import secrets
from collections.abc import Iterable
from time import monotonic

import structlog

from licorne_server.store.coordination.store import Store
from licorne_server.store.documents.documents import Conflict, StoreError

log = structlog.get_logger("core.coordination.members")

KEY = "secret"
"""Key of the document in the store."""

METADATA = "licorne-secret"
"""Name of the secret in the metadata of a call between members."""

TELL_SECONDS = 60.0
"""Seconds between two log lines about wrong secrets."""

_BYTES = 32
_LONGEST = 1024
_TRIES = 3


async def deployment_secret(store: Store, known: str = "") -> str:
    """The secret of the store's deployment, which the first member creates.

    A wiped store gets the `known` secret again.

    Raises:
        StoreError: the store does not answer, or its document is no secret.
    """
    for _ in range(_TRIES):
        document = await store.read(KEY)
        if document.revision:
            return _read(document.value)
        made = known or secrets.token_hex(_BYTES)
        try:
            await store.compare_and_set(KEY, made.encode(), 0)
        except Conflict:
            continue
        return made
    raise StoreError(f"the document {KEY!r} comes and goes")


def _read(value: bytes) -> str:
    text = value.decode("ascii", "replace")
    if len(text) > _LONGEST or not text.isalnum() or not text.isascii():
        raise StoreError(f"the document {KEY!r} is no secret: ASCII letters and digits were expected")
    return text


class Secret:
    """The secret of the deployment, and the number of callers that have sent another secret."""

    value: str
    """The secret; empty while it is unknown, when no caller is accepted."""

    def __init__(self, value: str = "") -> None:
        """Start with a secret, or without one if it is set later."""
        self.value = value
        # Number of wrong secrets since the last log line, and time of that line.
        self._wrong, self._told = 0, -TELL_SECONDS

    def is_in(self, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
        """True if the metadata of a gRPC call contain exactly this secret; compared in constant time."""
        given = [value for key, value in metadata if key == METADATA]
        if not self.value or len(given) != 1:
            return False
        sent = given[0].encode() if isinstance(given[0], str) else given[0]
        return hmac.compare_digest(sent, self.value.encode())

    def refused(self, peer: str) -> None:
        """Log refused callers at intervals, as anybody may send a wrong secret."""
        self._wrong += 1
        if monotonic() - self._told >= TELL_SECONDS:
            log.warning("not taken for a member: it does not know the secret", peer=peer, times=self._wrong)
            self._told, self._wrong = monotonic(), 0
