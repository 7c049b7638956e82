"""Bearer tokens in files: the identities of RMs without certificates.

A token travels in the metadata of a call, as ``authorization: Bearer TOKEN``.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from licorne_server.process.settings import SettingsError

log = structlog.get_logger("core.tokens")

MIN_CHARACTERS = 16
MAX_CHARACTERS = 4096
SCHEME = "bearer"


class Grant(NamedTuple):
    """Rights of a token."""

    rms: frozenset[str]
    """RmIDs for which the bearer of the token may act."""
    operator: bool
    """True if the bearer may see and configure every RM."""
    viewer: bool
    """True if the bearer may see every RM."""
    peer: str
    """Name of the bearer, which reveals nothing about the token."""

    def within(self, other: "Grant | None") -> bool:
        """True if another grant allows everything that this grant allows."""
        return (
            other is not None
            and self.rms <= other.rms
            and self.operator <= other.operator
            and self.viewer <= other.viewer
        )


class Tokens:
    """Tokens of all RMs, operators and viewers, as they were last read from their files."""

    def __init__(
        self, rms: Mapping[str, Sequence[Path]], operators: Sequence[Path], viewers: Sequence[Path]
    ) -> None:
        """Read the files, each with one token.

        Raises:
            SettingsError: a file cannot be read, or holds no token.
        """
        self._rms = rms
        self._operators = operators
        self._viewers = viewers
        self._grants = self._read()

    def reload(self) -> dict[str, Grant | None]:
        """Read the files again; if any of them is unusable, the old tokens remain in use.

        Returns the remaining grant of each peer that has lost rights; None for a peer that has no grant left.
        """
        before = self._grants
        try:
            self._grants = self._read()
        except SettingsError as error:
            log.warning("tokens not reloaded", reason=str(error))
        else:
            log.info("tokens reloaded", tokens=len(self._grants))
        after = {grant.peer: grant for grant in self._grants.values()}
        return {
            grant.peer: after.get(grant.peer)
            for grant in before.values()
            if not grant.within(after.get(grant.peer))
        }

    def grant(self, authorization: str) -> Grant | None:
        """Grant of an `authorization` value; None for an unknown token.

        The value is compared with every token, so that the duration does not reveal its similarity.
        """
        scheme, _, token = authorization.partition(" ")
        digest = _digest(token.strip(" "))
        found: Grant | None = None
        for known, grant in self._grants.items():
            if hmac.compare_digest(known, digest):
                found = grant
        return found if scheme.lower() == SCHEME else None

    def _read(self) -> dict[bytes, Grant]:
        grants: dict[bytes, Grant] = {}
        for rm_id, files in self._rms.items():
            for file in files:
                _add(grants, _token(file, f"access.rm_token_files {rm_id}={file}"), rms=frozenset({rm_id}))
        for file in self._operators:
            _add(grants, _token(file, f"access.operator_token_files {file}"), operator=True)
        for file in self._viewers:
            _add(grants, _token(file, f"access.viewer_token_files {file}"), viewer=True)
        return grants


def tokens_in(
    rms: Mapping[str, Sequence[Path]], operators: Sequence[Path], viewers: Sequence[Path]
) -> Tokens | None:
    """The tokens in these files; None if there are no files, and thus no tokens."""
    return Tokens(rms, operators, viewers) if rms or operators or viewers else None


def _add(
    grants: dict[bytes, Grant],
    token: str,
    *,
    rms: frozenset[str] = frozenset(),
    operator: bool = False,
    viewer: bool = False,
) -> None:
    """Add rights to a token's grant."""
    digest = _digest(token)
    known = grants.get(digest, Grant(frozenset(), False, False, f"token {digest.hex()[:16]}"))
    grants[digest] = Grant(known.rms | rms, known.operator or operator, known.viewer or viewer, known.peer)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _token(file: Path, key: str) -> str:
    """The token in a file, without white space around it.

    Raises:
        SettingsError: the file has no token.
    """
    try:
        with file.open("rb") as stream:
            # One more byte, and room for a line end, are enough to detect a token that is too long.
            content = stream.read(MAX_CHARACTERS + 3)
    except OSError as error:
        raise SettingsError(f"{key}: cannot read {file}: {error.strerror}") from None
    token = content.decode("ascii", errors="replace").strip()
    if not MIN_CHARACTERS <= len(token) <= MAX_CHARACTERS:
        raise SettingsError(
            f"{key}: the token has {len(token)} characters, {MIN_CHARACTERS} to {MAX_CHARACTERS} are allowed"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(f"{key}: the token must be printable ASCII without blanks")
    return token
