"""The connection: opens one stream after another until the client ends."""

import asyncio
import logging

import grpc
from grpc import aio

from licorne.channel import Backoff, Dialer, refusal, text_of, wanted_wait
from licorne.client_context import ClientContext
from licorne.errors import (
    ConfigInvalid,
    ConnectionLost,
    LicorneError,
    ProtocolError,
    RegistrationInvalid,
    SessionFenced,
)
from licorne.options import RetryConfig
from licorne.stream import GRACE, Stream
from licorne.v1.session_pb2_grpc import SessionStub

LOG = logging.getLogger("licorne")

MAY_PASS = (ProtocolError, RegistrationInvalid, ConfigInvalid)
"""Refusals whose cause may be a message corrupted on its way. Any other refusal ends the client at once."""
LOOK_AT = (
    "It was refused again, and nothing was dealt with in between. Look at the versions of client "
    "and server, at what the server logged, and at what changes bytes on the way; TLS notices that."
)


NO_CONNECTION = "no connection to %s: %s"
"""Message of the logger `licorne` about a stream that broke or could not be opened."""


class Connection:
    """Opens streams to the target until it is closed or a failure is permanent."""

    def __init__(self, context: ClientContext, dialer: Dialer, retry: RetryConfig) -> None:
        """Prepare the connection, which opens no stream before `start`."""
        self._context = context
        self._dialer = dialer
        self._addresses = dialer.addresses
        self._retry = retry
        self._backoff = Backoff(retry)
        self._task: asyncio.Task[None] | None = None
        self._down_since = 0.0
        """Time by the loop's clock when the last session was lost; before the first session, of the start."""
        self._redirects = 0
        """Number of redirects since the last welcome."""
        self._refused_at: tuple[int, int | None] | None = None
        """Progress at the last refusal: the number of complete replays, and the number of the last processed
        request (None during a replay). None before the first refusal."""

    def start(self) -> None:
        """Begin to connect in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self, *, unregister: bool) -> None:
        """Send queued messages and a goodbye, then end. Without a stream nothing is sent."""
        self._context.leave(unregister=unregister)
        if self._task is not None:
            if self._context.outgoing.streaming:
                await asyncio.wait((self._task,), timeout=2 * GRACE)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # A task that is cancelled before its first step has not ended the context.
        self._context.end(None)

    async def _run(self) -> None:
        failure: LicorneError | None = None
        self._down_since = asyncio.get_running_loop().time()
        try:
            while not self._context.leaving.is_set():
                await self._pause(await self._attempt())
        except LicorneError as error:
            failure = error
        except Exception as error:
            LOG.exception("the client of %s fails on a defect of its own", self._addresses)
            failure = LicorneError(f"a defect of the client: {error!r}")
        finally:
            self._context.end(failure)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._context.leaving.wait()
        except TimeoutError:
            pass

    async def _attempt(self) -> float:
        """Open a stream and use it until it ends; returns the seconds to wait before the next one.

        Raises the error that ends the client.
        """
        stream = None
        try:
            self._context.stats.streams += 1
            # Each stream has its own channel, so that no attempt inherits an earlier failure, and renewed
            # certificates are read.
            address = self._addresses.current
            async with self._dialer.channel(address) as channel:
                call = SessionStub(channel).Update(metadata=self._dialer.metadata(address))
                stream = Stream(self._context, call, self._addresses)
                await stream.run()
        except aio.AioRpcError as error:
            return self._ended(stream, error)
        except ProtocolError as error:
            return self._refused(stream, error)
        except (ConnectionLost, OSError) as error:
            return 0.0 if self._lost(stream, str(error), answered=False) else self._backoff.next()
        if stream.redirect:
            return self._redirected(stream.redirect)
        self._backoff.reset()
        self._redirects = 0
        self._down_since = asyncio.get_running_loop().time()
        self._addresses.left(self._down_since)
        return self._backoff.told(stream.retry_after or self._retry.initial)

    def _redirected(self, address: str) -> float:
        """Switch to another address; returns the seconds to wait before dialing it. Raises as `_lost` does.

        Only the first redirect is followed immediately, so that servers that redirect to each other are not
        overrun.
        """
        self._redirects += 1
        wait = self._backoff.next() if self._redirects > 1 else 0.0
        LOG.info("redirected from %s to %s, waiting %.3f s", self._addresses.current, address, wait)
        self._check_patience(f"redirected {self._redirects} times, to {address} last")
        self._addresses.redirected(address)
        return wait

    def _check_patience(self, reason: str) -> None:
        """Raise ConnectionLost after `give_up_after` seconds without a session."""
        patience = self._retry.give_up_after
        down = asyncio.get_running_loop().time() - self._down_since
        if patience is not None and down >= patience:
            raise ConnectionLost(f"no session with {self._addresses} for {patience} s: {reason}")

    def _ended(self, stream: Stream | None, error: aio.AioRpcError) -> float:
        """Decide what to do after a stream that ended with a status.

        Returns the seconds to wait before the next stream, or raises the error that ends the client.
        """
        refused = refusal(error)
        if isinstance(refused, MAY_PASS):
            return self._refused(stream, refused)
        if refused is not None and not self._is_foreign(stream, refused):
            raise refused from error
        wait = wanted_wait(error)
        answered = wait is not None or error.code() is not grpc.StatusCode.UNAVAILABLE
        at_once = self._lost(stream, text_of(error), answered=answered)
        if wait is not None:
            return self._backoff.told(wait)
        if at_once:
            return 0.0
        return self._backoff.next(exhausted=error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED)

    def _is_foreign(self, stream: Stream | None, refused: LicorneError) -> bool:
        """True if the refusal may not be from a Licorne server: only another server named its address."""
        welcomed = stream is not None and stream.welcomed_at is not None
        return not (welcomed or isinstance(refused, SessionFenced)) and self._addresses.refused()

    def _refused(self, stream: Stream | None, error: LicorneError) -> float:
        """Decide what to do after a refused message; returns and raises as `_ended` does.

        One corrupted byte is enough for a refusal, so the message is sent again: by a resumption, or by a
        replay if a replay was refused or no message was processed since the last refusal. If a replay is
        refused a second time without progress, the client ends.
        """
        if self._is_foreign(stream, error):
            self._lost(stream, str(error), answered=True)
            return self._backoff.next()
        context = self._context
        live = stream is not None and stream.was_live
        reached = (context.stats.replayed, context.session.processed if live else None)
        again, self._refused_at = reached == self._refused_at, reached
        if again and not live:
            if isinstance(error, ProtocolError):
                error.add_note(LOOK_AT)
            raise error
        if again or not live:
            context.give_up_session()
        self._lost(stream, f"a message was refused, and is sent again: {error}", answered=True)
        return self._backoff.next()

    def _lost(self, stream: Stream | None, reason: str, *, answered: bool) -> bool:
        """Record that a stream broke or could not be opened, and switch to the next address.

        Returns True if that address should be dialed immediately, see `Addresses.failed`. Raises
        ConnectionLost after `give_up_after` seconds without a session.
        """
        now = asyncio.get_running_loop().time()
        failures, address = self._addresses.failures, self._addresses.current
        failures[address] += 1
        # A new reason is logged at once, repeats ever more rarely: an outage may last for hours.
        if failures[address].bit_count() == 1 or self._addresses.reasons.get(address) != reason:
            LOG.warning(NO_CONNECTION, address, reason)
            self._addresses.reasons[address] = reason
        if stream is not None and stream.welcomed_at is not None:
            self._backoff.lasted(now - stream.welcomed_at)
            self._redirects = 0
            self._down_since = now
        self._check_patience(reason)
        if stream is not None and stream.welcomed_at is not None:
            self._addresses.lost()
            return False
        return self._addresses.failed(now, answered=answered)
