"""The other members of the deployment, asked over HTTP (DESIGN § 3).

A member asks with the secret of the deployment and with the identity of its own caller, as it has
authenticated it. The member that is asked trusts that identity only with the secret, and never asks
others in turn. Whatever others send is bounded in bytes and in time.
"""

import asyncio
import hmac
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TypeVar

import aiohttp
import structlog
from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from licorne_server.process.fair import PeerQuota
from licorne_server.process.settings import Tls
from licorne_server.security.access import Caller
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.store import Member

log = structlog.get_logger("core.http.members")

SECRET = "Licorne-Secret"
CALLER = "Licorne-Caller"
MISSING = "Licorne-Missing-Members"
"""Header of an answer that lacks the part of these members."""

UNIX = "unix:"
TELL_SECONDS = 60.0
"""Seconds between two log lines about wrong secrets."""

OK = 200

CONNECT_SECONDS = 2.0
HEAD_SECONDS = 5.0
"""Seconds until a member begins to answer."""

WHOLE_SECONDS = 10.0
"""Seconds in which a member gives an answer that is one part of a larger one."""

STALL_SECONDS = 30.0
"""Seconds between two pieces of an answer."""

LOOK_SECONDS = 1.0
"""Seconds between two checks that a live answer goes on, while nothing comes."""

MAX_CALLER = 6 * 1024
"""Bytes of an identity that is passed on: a header has 8 KiB at most."""

MAX_WHOLE = 16 * 1024 * 1024
"""Bytes of an answer that is one part of a larger one."""

MAX_REQUESTS = 256
MAX_REQUESTS_OF_PEER = 64
"""Requests of callers that wait for other members at the same time: of all peers, and of one."""

MAX_MERGES = 4
"""Answers of several parts that are collected at the same time. Others wait."""

T = TypeVar("T")


class Unreachable(Exception):
    """A member gave no usable answer."""

    def __init__(self, member: Member, reason: str) -> None:
        """`reason` is a short text, such as ``does not answer``."""
        super().__init__(f"member {member.name} {reason}")
        self.member = member


@dataclass(frozen=True, slots=True)
class Passed:
    """The caller of a request, as the member that it came to has authenticated it."""

    caller: Caller
    identified: bool
    """False if everything is open to all there."""

    def text(self) -> str:
        """The header's value."""
        caller = self.caller
        return json.dumps(
            {
                "names": sorted(caller.names),
                "operator": caller.operator,
                "viewer": caller.viewer,
                "peer": caller.peer,
                "identified": self.identified,
            }
        )

    @classmethod
    def read(cls, text: str) -> "Passed":
        """The caller in a header.

        Raises:
            ValueError: the value names none.
        """
        try:
            fields = json.loads(text)
            names = frozenset(map(str, fields["names"]))
            # A member of an older version does not know viewers.
            viewer = fields.get("viewer") is True
            caller = Caller(names, fields["operator"] is True, str(fields["peer"]), viewer)
            return cls(caller, fields["identified"] is not False)
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{CALLER} names no caller") from error


class Members:
    """Asks the other members, and knows their requests."""

    ownership: Ownership
    """Knows the members, and the owners of RMs."""
    secret: str
    """The secret of the deployment; empty while it is not known, when nobody is asked or trusted."""
    requests: PeerQuota
    """Places of requests that wait for other members."""

    def __init__(self, ownership: Ownership, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`tls` makes the context of a connection to a member whose address begins with ``https``."""
        self.ownership = ownership
        self.secret = ""
        # Wrong secrets since the log was last told, and when that was.
        self._wrong, self._told = 0, -TELL_SECONDS
        self.requests = PeerQuota(MAX_REQUESTS, MAX_REQUESTS_OF_PEER, _too_many)
        self._tls = tls
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._merges = asyncio.Semaphore(MAX_MERGES)

    @classmethod
    def beside(cls, ownership: Ownership, tls: Tls | None, ca: Path | None = None) -> "Members | None":
        """The members beside this one, with its TLS; None for a server that is alone.

        `ca` is the CA of their certificates, as `member_tls` takes it.
        """
        if ownership.store is None:
            return None
        return cls(ownership, None if tls is None else partial(member_tls, tls, ca))

    @property
    def name(self) -> str:
        """The name of this member; empty while it has none."""
        me = self.ownership.snapshot().members.get(self.ownership.me())
        return "" if me is None else me.name

    @property
    def own_right(self) -> Passed:
        """This member itself as the caller, which may see everything."""
        return Passed(Caller(frozenset(), True, f"member {self.name}"), True)

    def others(self) -> list[Member]:
        """All other members with a living lease, in order of their names."""
        me = self.ownership.me()
        living = self.ownership.snapshot().members.values()
        return sorted((one for one in living if one.id != me), key=lambda one: (one.name, one.id))

    def trusted(self, headers: CIMultiDictProxy[str]) -> Passed | None:
        """The caller that a member has passed on; None if the request is not a member's.

        Raises:
            ValueError: it is a member's, and names no caller.
        """
        given = headers.getall(SECRET, [])
        if not given or not self.secret:
            return None
        # Bytes that are no UTF-8 come as surrogates.
        sent = given[0].encode(errors="surrogateescape")
        if len(given) != 1 or not hmac.compare_digest(sent, self.secret.encode()):
            self._tell_of_wrong_secret()
            return None
        return Passed.read(headers.get(CALLER, ""))

    def _tell_of_wrong_secret(self) -> None:
        """Tell the log now and then, as anybody may send one with each request."""
        self._wrong += 1
        if monotonic() - self._told >= TELL_SECONDS:
            log.warning("a wrong secret of the deployment was sent", times=self._wrong)
            self._told, self._wrong = monotonic(), 0

    @asynccontextmanager
    async def answer(
        self,
        member: Member,
        path: str,
        passed: Passed,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer of a member to a path, encoded and with its query; `chunks` reads its body.

        It has to begin within `patience` seconds, HEAD_SECONDS by default.

        Raises:
            Unreachable: it does not answer in time.
        """
        caller = passed.text()
        if not member.http:
            raise Unreachable(member, "serves no HTTP")
        if not self.secret:
            raise Unreachable(member, "is not asked before the secret of the deployment is known")
        if len(caller) > MAX_CALLER:
            raise Unreachable(member, f"cannot be told all {len(passed.caller.names)} names of the caller")
        plain = {"Accept-Encoding": "identity"}
        ours = {**plain, **(headers or {}), SECRET: self.secret, CALLER: caller}
        try:
            async with asyncio.timeout(HEAD_SECONDS if patience is None else patience):
                session = await self._session(member.http)
                url = URL(_base(member.http) + path, encoded=True)
                answer = await session.request(method, url, headers=ours, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            log.warning("member does not answer", member=member.name, path=path, reason=repr(error))
            raise Unreachable(member, "does not answer") from error
        async with answer:
            yield answer

    async def chunks(
        self,
        member: Member,
        answer: aiohttp.ClientResponse,
        goes_on: Callable[[], bool] | None = None,
        pause: float = STALL_SECONDS,
    ) -> AsyncGenerator[bytes, None]:
        """The body of an answer, as it comes.

        It ends early when `goes_on` gives False, which is asked while nothing comes. Without it
        nothing may come for `pause` seconds.

        Raises:
            Unreachable: it breaks off.
        """
        pause = pause if goes_on is None else LOOK_SECONDS
        while goes_on is None or goes_on():
            try:
                async with asyncio.timeout(pause):
                    chunk = await answer.content.readany()
            except TimeoutError as error:
                if goes_on is not None:
                    continue
                raise Unreachable(member, "has stalled") from error
            except (aiohttp.ClientError, OSError) as error:
                raise Unreachable(member, "has broken off its answer") from error
            if not chunk:
                return
            yield chunk

    async def whole(self, member: Member, path: str, passed: Passed) -> bytes:
        """The whole body of a successful answer.

        Raises:
            Unreachable: there is none, or it is too large.
        """
        body = bytearray()
        try:
            async with (
                asyncio.timeout(WHOLE_SECONDS),
                self.answer(member, path, passed) as answer,
                aclosing(self.chunks(member, answer)) as chunks,
            ):
                if answer.status != OK:
                    raise Unreachable(member, f"answers with the status {answer.status}")
                async for chunk in chunks:
                    body += chunk
                    if len(body) > MAX_WHOLE:
                        raise Unreachable(member, f"answers with more than {MAX_WHOLE} bytes")
        except TimeoutError as error:
            raise Unreachable(member, f"needs more than {WHOLE_SECONDS:g} s") from error
        return bytes(body)

    async def parts(
        self, path: str, passed: Passed, read: Callable[[bytes], T]
    ) -> list[tuple[Member, T | None]]:
        """What `read` makes of the answers of all other members, in their order; None without one.

        `read` raises ValueError for bytes that it cannot use.
        """

        async def part(member: Member) -> tuple[Member, T | None]:
            try:
                return member, read(await self.whole(member, path, passed))
            except Unreachable as error:
                log.warning("answer without a member", path=path, reason=str(error))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                log.warning("unusable answer of a member", member=member.name, path=path, reason=repr(error))
            return member, None

        async with self._merges:
            return list(await asyncio.gather(*map(part, self.others())))

    async def close(self) -> None:
        """Close all connections."""
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def _session(self, address: str) -> aiohttp.ClientSession:
        """Connections to an address; those to members that have gone are closed."""
        known = {member.http for member in self.others()}
        for gone in self._sessions.keys() - known - {address}:
            await self._sessions.pop(gone).close()
        if address not in self._sessions:
            self._sessions[address] = self._opened(address)
        return self._sessions[address]

    def _opened(self, address: str) -> aiohttp.ClientSession:
        # Requests are bounded where they come in: one that waits must not keep another from its turn.
        connector: aiohttp.BaseConnector
        if address.startswith(UNIX):
            connector = aiohttp.UnixConnector(address.removeprefix(UNIX), limit=0)
        elif address.startswith("https:") and self._tls is not None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls())
        else:
            connector = aiohttp.TCPConnector(limit=0)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )


def _too_many(most: int, peer: str) -> web.HTTPServiceUnavailable:
    whose = f" of {peer}" if peer else ""
    return web.HTTPServiceUnavailable(text=f"{most} requests{whose} wait for other members already")


def _base(address: str) -> str:
    """The beginning of all URLs of a member."""
    return "http://localhost" if address.startswith(UNIX) else address.rstrip("/")


def member_tls(tls: Tls, ca: Path | None) -> ssl.SSLContext:
    """The context of connections to other members; `ca` signs their certificates.

    Without one it is the CA of clients, or else those that the system knows. This server's own
    certificate is shown, and trusted: members may share one.
    """
    context = ssl.create_default_context(cafile=ca or tls.client_ca)
    context.load_cert_chain(tls.cert, tls.key, password="")
    context.load_verify_locations(tls.cert)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
