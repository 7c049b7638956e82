"""Opens one stream after the other, for as long as the client lives."""

import asyncio
import logging
import random

from grpc import aio

from licorne.backoff import Backoff
from licorne.channel import fatal_error, open_channel, text_of
from licorne.errors import ConnectionLost, LicorneError, Unauthorized
from licorne.options import RetryConfig, TlsConfig, Token, authorization, check_token
from licorne.state import ClientState
from licorne.stream import GRACE, Stream
from licorne.v1.session_pb2_grpc import SessionStub

LOG = logging.getLogger("licorne")


class Connection:
    """Opens streams to the target until it is closed or something fails for good."""

    def __init__(
        self,
        state: ClientState,
        target: str,
        tls: TlsConfig | None,
        retry: RetryConfig,
        token: Token | None = None,
    ) -> None:
        """Open nothing before `start`. Raises ValueError for a token without TLS."""
        check_token(token, tls, target)
        self._state = state
        self._target = target
        """The address that the caller gave."""
        self._address = target
        """The address to connect to: the target, or where it has redirected us."""
        self._tls = tls
        self._token = token
        self._retry = retry
        self._backoff = Backoff(initial=retry.initial, maximum=retry.maximum, stable=retry.stable)
        self._channel: aio.Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._down_since = 0.0
        """When the last session was lost, or the first one sought, by the loop's clock."""
        self._redirects = 0
        """How often the client was redirected since the last session."""

    def start(self) -> None:
        """Begin to connect in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self, *, unregister: bool) -> None:
        """Send what is queued, say goodbye and end. Without a stream nothing is sent."""
        self._state.leave(unregister=unregister)
        if self._task is not None:
            if self._state.outgoing.streaming:
                await asyncio.wait((self._task,), timeout=2 * GRACE)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # A task that is cancelled before its first step does not end the state by itself.
        self._state.end(None)

    def channel(self) -> aio.Channel:
        """The channel, also for calls beside the stream. Raises OSError for bad certificates."""
        if self._channel is None:
            self._channel = open_channel(self._address, self._tls)
        return self._channel

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Who calls, for every call. Raises what `authorization` does."""
        try:
            check_token(self._token, self._tls, self._address)
        except ValueError as error:
            raise Unauthorized(str(error)) from None
        return authorization(self._token)

    async def _run(self) -> None:
        failure: LicorneError | None = None
        self._down_since = asyncio.get_running_loop().time()
        try:
            while not self._state.leaving.is_set():
                await self._pause(await self._attempt())
        except LicorneError as error:
            failure = error
        except Exception as error:
            LOG.exception("the client of %s fails on a defect of its own", self._target)
            failure = LicorneError(f"a defect of the client: {error!r}")
        finally:
            self._state.end(failure)
            await self._close_channel()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._state.leaving.wait()
        except TimeoutError:
            pass

    async def _attempt(self) -> float:
        """Open a stream and use it to its end. Returns the seconds to wait before the next one.

        Raises the error that ends the client.
        """
        stream = None
        try:
            self._state.stats.streams += 1
            call = SessionStub(self.channel()).Update(metadata=self.metadata())
            stream = Stream(self._state, call)
            await stream.run()
        except aio.AioRpcError as error:
            fatal = fatal_error(error)
            if fatal is not None:
                raise fatal from error
            return await self._lost(stream, text_of(error))
        except (ConnectionLost, OSError) as error:
            return await self._lost(stream, str(error))
        if stream.redirect:
            return await self._redirected(stream.redirect)
        self._backoff.reset()
        self._redirects = 0
        self._down_since = asyncio.get_running_loop().time()
        retry_after = stream.retry_after or self._retry.initial
        return random.uniform(retry_after, 1.5 * retry_after)

    async def _redirected(self, address: str) -> float:
        """Go on at another address. Returns and raises what `_lost` does.

        Only the first redirect is followed at once, so that servers which send the client to each
        other are not overrun.
        """
        self._redirects += 1
        wait = self._backoff.next() if self._redirects > 1 else 0.0
        LOG.info("redirected from %s to %s, waiting %.3f s", self._address, address, wait)
        self._check_patience(f"redirected {self._redirects} times, to {address} last")
        await self._go_to(address)
        return wait

    def _check_patience(self, reason: str) -> None:
        """Raise ConnectionLost after `give_up_after` seconds without a session."""
        patience = self._retry.give_up_after
        down = asyncio.get_running_loop().time() - self._down_since
        if patience is not None and down >= patience:
            raise ConnectionLost(f"no session with {self._target} for {patience} s: {reason}")

    async def _lost(self, stream: Stream | None, reason: str) -> float:
        """Decide what follows a failure. Returns the seconds to wait before the next stream.

        Raises ConnectionLost after `give_up_after` seconds without a session.
        """
        now = asyncio.get_running_loop().time()
        LOG.warning("no connection to %s: %s", self._address, reason)
        if stream is not None and stream.welcomed_at is not None:
            self._backoff.lasted(now - stream.welcomed_at)
            self._redirects = 0
            self._down_since = now
        self._check_patience(reason)
        if self._tls is not None or self._address != self._target:
            # A new channel reads certificates that may have been renewed, and the target knows
            # where to redirect us now.
            await self._go_to(self._target)
        return self._backoff.next()

    async def _go_to(self, address: str) -> None:
        await self._close_channel()
        self._address = address

    async def _close_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
