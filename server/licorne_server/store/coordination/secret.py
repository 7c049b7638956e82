"""The secret of a deployment, by which its members know each other."""

import hmac
import secrets
from collections.abc import Iterable

from licorne_server.store.coordination.store import Conflict, Store, StoreError

KEY = "secret"
"""Key of the document in the store."""

METADATA = "licorne-secret"
"""Name of the secret in the metadata of a call between members."""

_BYTES = 32
_LONGEST = 1024
_TRIES = 3


async def deployment_secret(store: Store, known: str = "") -> str:
    """The secret of the store's deployment, which the first member creates.

    A store that was wiped gets the `known` one again.

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


def is_given(secret: str, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
    """True if the metadata of a call has the secret, compared in constant time."""
    given = [value for key, value in metadata if key == METADATA]
    if len(given) != 1:
        return False
    value = given[0].encode() if isinstance(given[0], str) else given[0]
    return hmac.compare_digest(value, secret.encode())
