"""The other members of the deployment, for reads of REST and the page (DESIGN § 3).

A read is a call between members, `licorne.members.Members/Read`, with the identity of the caller as this
member has authenticated it. The other member answers for itself, without asking further members. Answers are
bounded in size and in time.
"""

import asyncio
import string
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import Protocol, TypeVar
from urllib.parse import quote

import structlog
from aiohttp import web
from google.protobuf.message import DecodeError
from multidict import CIMultiDict

from licorne_server.process.fair import PeerQuota
from licorne_server.security.access import Caller
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.store import Member
from licorne_server.wire.errors import CallError, Malformed
from licorne_server.wire.items import parse

log = structlog.get_logger("core.http.members")

MISSING = "Licorne-Missing-Members"
"""Header of an answer, with the names of the members whose part is missing."""

OK = 200

HEAD_SECONDS = 5.0
"""Seconds until a member begins to answer."""

WHOLE_SECONDS = 10.0
"""Seconds within which a member has to send its part of a merged answer."""

STALL_SECONDS = 30.0
"""Maximum seconds between two pieces of an answer."""

LOOK_SECONDS = 1.0
"""Seconds between two checks whether a live answer should continue, while nothing arrives."""

MAX_WHOLE = 16 * 1024 * 1024
"""Maximum number of bytes of one member's part of a merged answer."""

MAX_REQUESTS = 256
MAX_REQUESTS_OF_PEER = 64
"""Maximum number of concurrent requests that wait for other members: in total, and of one peer."""

MAX_MERGES = 4
"""Maximum number of merged answers that are collected at the same time; further requests wait."""

T = TypeVar("T")


class Unreachable(Exception):
    """A member gave no usable answer."""

    def __init__(self, member: Member, reason: str) -> None:
        """`reason` is a short text, such as ``does not answer``."""
        super().__init__(f"member {member.name} {reason}")
        self.member = member


class MemberCall(Protocol):
    """A running call to another member."""

    async def receive(self) -> bytes | None:
        """The next message; None at the end."""
        ...

    def check(self) -> None:
        """Raise the error with which the call has ended, if any, as CallError."""
        ...


Reading = Callable[[Member, pb.ReadRequest, Caller, str], AbstractAsyncContextManager[MemberCall]]
"""Opens the call `Read` for a caller. With the id of an RM the call ends when the RM gets another owner.

Raises CallError if the member does not answer."""


class Answer:
    """An answer of a member, which is received piece by piece."""

    status: int
    headers: Mapping[str, str]

    def __init__(self, member: Member, call: MemberCall, head: pb.ReadHead) -> None:
        """Create an answer whose head was received; its body follows."""
        self.status, self.headers = head.status, CIMultiDict(head.headers)
        self._member = member
        self._call = call

    async def chunks(
        self, goes_on: Callable[[], bool] | None = None, pause: float = STALL_SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """The body, in chunks as they arrive.

        The body ends early once `goes_on` returns False, which is called while no data arrives. Without
        `goes_on` there may be at most `pause` seconds between two chunks.

        Raises:
            Unreachable: the answer breaks off.
        """
        pause = pause if goes_on is None else LOOK_SECONDS
        while goes_on is None or goes_on():
            try:
                async with asyncio.timeout(pause):
                    chunk = await self._call.receive()
                if chunk is None:
                    self._call.check()
                    return
            except TimeoutError as error:
                if goes_on is not None:
                    continue
                raise Unreachable(self._member, "has stalled") from error
            except CallError as error:
                raise Unreachable(self._member, f"has broken off its answer: {error.message}") from error
            yield chunk


class Members:
    """Sends reads to the other members."""

    requests: PeerQuota
    """Limits the requests that wait for other members."""

    def __init__(self, ownership: Ownership, reading: Reading) -> None:
        """`ownership` has the members; `reading` calls one of them."""
        self.requests = PeerQuota(MAX_REQUESTS, MAX_REQUESTS_OF_PEER, _too_many)
        self._ownership = ownership
        self._reading = reading
        self._merges = asyncio.Semaphore(MAX_MERGES)

    @property
    def name(self) -> str:
        """The name of this member; empty before it has one."""
        me = self._ownership.snapshot().members.get(self._ownership.me())
        return "" if me is None else me.name

    @property
    def own_right(self) -> Caller:
        """The identity of this member, which may see everything."""
        return Caller(frozenset(), True, f"member {self.name}")

    def others(self) -> list[Member]:
        """All other members with a valid lease, in order of their names."""
        return sorted(self._ownership.others(), key=lambda one: (one.name, one.id))

    @asynccontextmanager
    async def answer(
        self,
        member: Member,
        path: str,
        caller: Caller,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
        rm_id: str = "",
    ) -> AsyncIterator[Answer]:
        """The answer of a member to an encoded path with its query.

        The answer has to begin within `patience` seconds, HEAD_SECONDS by default. With `rm_id` it ends when
        the owner of that RM changes.

        Raises:
            Unreachable: the member does not answer in time.
        """
        # A path may contain raw bytes, which may not even be UTF-8.
        path = quote(path, safe=string.punctuation, errors="surrogateescape")
        asked = pb.ReadRequest(method=method, path=path, headers=headers)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(HEAD_SECONDS if patience is None else patience):
                    reading = self._reading(member, asked, caller, rm_id)
                    call = await stack.enter_async_context(reading)
                    raw = await call.receive()
                if raw is None:
                    call.check()
                head = parse(pb.ReadHead, raw or b"")
                if not OK <= head.status < 600:
                    raise Malformed(f"ReadHead: status {head.status}")
            except (CallError, Malformed, TimeoutError) as error:
                log.warning("member does not answer", member=member.name, path=path, reason=repr(error))
                raise Unreachable(member, "does not answer") from error
            yield Answer(member, call, head)

    async def whole(self, member: Member, path: str, caller: Caller) -> bytes:
        """The whole body of a successful answer.

        Raises:
            Unreachable: there is no successful answer, or it is too large.
        """
        body = bytearray()
        try:
            async with (
                asyncio.timeout(WHOLE_SECONDS),
                self.answer(member, path, caller) as answer,
                aclosing(answer.chunks()) as chunks,
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
        self, path: str, caller: Caller, read: Callable[[bytes], T]
    ) -> list[tuple[Member, T | None]]:
        """The answers of all other members, in their order, converted by `read`; None for a missing answer.

        `read` raises ValueError or DecodeError for unusable bytes.
        """

        async def part(member: Member) -> tuple[Member, T | None]:
            try:
                return member, read(await self.whole(member, path, caller))
            except Unreachable as error:
                log.warning("answer without a member", path=path, reason=str(error))
            except (ValueError, KeyError, TypeError, RecursionError, DecodeError) as error:
                log.warning("unusable answer of a member", member=member.name, path=path, reason=repr(error))
            return member, None

        async with self._merges:
            return list(await asyncio.gather(*map(part, self.others())))


def _too_many(most: int, peer: str) -> web.HTTPServiceUnavailable:
    whose = f" of {peer}" if peer else ""
    return web.HTTPServiceUnavailable(text=f"{most} requests{whose} wait for other members already")
