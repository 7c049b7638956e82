"""Connections of the gRPC port, with the kernel's byte counts; abusive connections are cut.

gRPC closes connections that are idle or do not finish their handshake, and limits streams. It does not bound
frames that belong to no message: SETTINGS, PING, WINDOW_UPDATE, frames of unknown kinds, streams that are
opened and reset. Nor does it prevent one host from occupying all connections. So the kernel's count of
received bytes is compared, up to ten times a second, with the bytes explained by the calls of a connection. A
connection that has received far more is cut. Answers to PING, SETTINGS and calls of unknown methods never
reach Python either. gRPC does not always apply its `max_ping_strikes` to a PING flood: while it writes
answers it may never close the connection. So a connection without calls is also cut after more than a few
thousand answers.

Sockets are found among the open files of the process (Linux), because gRPC does not expose them.
"""

import asyncio
import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import unquote

import structlog

from licorne_server.process.bounds import PeerBounds, host_of, peer_of
from licorne_server.process.loop import stop_task
from licorne_server.wire.caps import MAX_MESSAGE_BYTES

log = structlog.get_logger("core.connections")

SWEEP_SECONDS = 0.001
"""Seconds between two sweeps for each open file, so that sweeps take the same share of a processor whatever
the number of files."""

SHORTEST_SWEEP, LONGEST_SWEEP = 0.1, 1.0
"""Bounds of the seconds between two sweeps. A longer interval lets more of a flood pass."""

SLICE = 64
"""Number of open files that are read in one step of the loop."""

CALL_BYTES = 4096
"""Number of bytes allowed for a call in addition to its messages, for its metadata."""

MESSAGE_BYTES = 128
"""Number of bytes allowed for a message in addition to its size: frames, TLS records, flow control."""

STRANGER_BYTES = MAX_MESSAGE_BYTES + 1024 * 1024
"""Maximum unexplained bytes of a connection from which no complete message has arrived."""

STRANGER_ANSWERS = 128 * 1024
"""Maximum bytes sent to a connection without calls: the handshake, and answers to frames. The flow control of
its first message takes at most a tenth of this."""

CALLER_BYTES = 16 * 1024 * 1024
"""Maximum unexplained bytes of any other connection: incomplete messages, and a message of refused size."""

STREAM_BYTES = MAX_MESSAGE_BYTES
"""Additional bytes for each stream of an RM: one message may arrive while another is read."""

UNREAD_PIECES = 16
"""Maximum number of pieces of a mebibyte that are read and dropped when a connection is cut."""

FORGIVEN_BYTES = 64 * 1024
"""Unexplained bytes that are forgiven each second: pings, flow control."""

RESETS = 512
"""Maximum number of cancelled calls of a connection beyond the forgiven ones."""

FORGIVEN_RESETS = 32
"""Cancelled calls that are forgiven each second."""

CROWDED = 7 / 8
"""Share of all connections above which connections without calls are cut, of the host with the most."""

ROOMY = 3 / 4
"""Share of all connections that remain after such a cut."""

_TCP_INFO = struct.Struct("120xQQ")
"""The structure tcp_info of linux/tcp.h: bytes acknowledged by the peer, and bytes received from it."""

Address = tuple[str, int]


class Link:
    """The calls of one connection, and the bytes that they explain."""

    open: int
    """Number of running calls."""
    streams: int
    """Number of running calls that are streams of an identified RM."""
    calls: int
    """Number of calls that have begun."""
    explained: int
    """Received bytes explained by calls."""
    resets: int
    """Number of calls that the peer has cancelled."""
    was_heard: bool
    """True once a complete message of a call has arrived."""

    def __init__(self) -> None:
        """Start without calls."""
        self.was_heard = False
        self.open = 0
        self.streams = 0
        self.calls = 0
        self.explained = 0
        self.resets = 0

    def called(self) -> None:
        """Count the beginning of a call."""
        self.open += 1
        self.calls += 1
        self.explained += CALL_BYTES

    def ended(self) -> None:
        """Count the end of a call."""
        self.open -= 1

    def heard(self, messages: int, size: int) -> None:
        """Count messages from the peer, of `size` bytes in total."""
        self.was_heard = True
        self.explained += size + size // 8 + messages * MESSAGE_BYTES

    def told(self, size: int) -> None:
        """Count a message of `size` bytes to the peer, which explains received frames of flow control."""
        self.explained += size // 8 + MESSAGE_BYTES


class CountedConnection:
    """A connection, with its counts at the last sweep."""

    address: Address
    """Address of the peer."""
    number: int
    """File descriptor of the connection."""

    def __init__(self, address: Address, link: Link) -> None:
        """Start without received bytes."""
        self.address = address
        self.link = link
        self.number = -1
        self.received = 0
        self.explained = 0
        self.debt = 0
        self.resets = 0
        self.reset_debt = 0
        self.is_cut = False

    def judge(self, received: int, seconds: float, answered: int = 0) -> str:
        """The reason to cut the connection, or an empty text.

        `received` is the total number of received bytes, and `answered` the total number of bytes
        acknowledged by the peer. The last call of this method was `seconds` ago.
        """
        link = self.link
        more = received - self.received - (link.explained - self.explained)
        self.received, self.explained = received, link.explained
        self.debt = max(0, self.debt + more - int(FORGIVEN_BYTES * seconds))
        resets = link.resets - self.resets
        self.resets = link.resets
        self.reset_debt = max(0, self.reset_debt + resets - int(FORGIVEN_RESETS * seconds))
        allowed = CALLER_BYTES + STREAM_BYTES * link.streams if link.was_heard else STRANGER_BYTES
        if answered > STRANGER_ANSWERS and not link.calls:
            return "many answers and no call"
        if self.debt > allowed:
            return "more bytes than its calls explain"
        if self.reset_debt > RESETS:
            return "too many calls cancelled"
        return ""

    def cut(self, copy: socket.socket, reason: str) -> None:
        """End the connection, given a copy of its socket.

        Received bytes are dropped, because gRPC would read all of them before it detects the end. Writing is
        shut down only if the connection still exists at the next sweep: otherwise each of gRPC's answers
        would fail, and gRPC would serve no other connection meanwhile.
        """
        if self.is_cut:
            copy.shutdown(socket.SHUT_RDWR)
            return
        self.is_cut = True
        host, port = self.address
        log.warning("connection cut", host=host, port=port, reason=reason)
        with suppress(BlockingIOError):
            for _ in range(UNREAD_PIECES):
                if not copy.recv(1024 * 1024, socket.MSG_DONTWAIT | socket.MSG_TRUNC):
                    break
        copy.shutdown(socket.SHUT_RD)


class Connections:
    """All connections to one listening address."""

    def __init__(self, bounds: PeerBounds) -> None:
        """Start without connections; `bounds` limit them."""
        self._bounds = bounds
        self._most, _ = bounds.affordable()
        self._port = 0
        self._links: dict[Address, Link] = {}
        self._sockets: dict[int, CountedConnection] = {}
        # Inodes of sockets that belong to other ports.
        self._others: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def options(self) -> list[tuple[str, int]]:
        """Options that make gRPC enforce its part of the bounds."""
        bounds = self._bounds
        return [
            ("grpc.max_allowed_incoming_connections", self._most),
            ("grpc.max_connection_idle_ms", int(bounds.idle * 1000)),
            ("grpc.server_handshake_timeout_ms", int(bounds.handshake * 1000)),
        ]

    def link(self, peer: str) -> Link:
        """The link of a peer, by the name that gRPC gives the peer; a new link for an unknown peer."""
        address = _address(host_of(peer), unquote(peer).rpartition(":")[2])
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link()
        return link

    def start(self, port: int) -> None:
        """Begin to sweep the connections to a port."""
        self._port = port
        self._task = asyncio.create_task(self._watch(), name="connections")

    async def stop(self) -> None:
        """Stop sweeping."""
        await stop_task(self._task)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            files = len(self._sockets) + len(self._others)
            await asyncio.sleep(min(max(SHORTEST_SWEEP, files * SWEEP_SECONDS), LONGEST_SWEEP))
            now = loop.time()
            try:
                await self._sweep(now - last)
            except FileNotFoundError:
                log.warning("connections are not watched: there is no /proc/self/fd")
                return
            except Exception:
                log.exception("connections not watched")
            last = now

    async def _sweep(self, seconds: float) -> None:
        """Read all open files, and cut abusive connections."""
        known = set(self._links)
        found: dict[int, CountedConnection] = {}
        others: set[int] = set()
        for number, name in enumerate(os.listdir("/proc/self/fd")):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            self._look(int(name), seconds, found, others)
        self._sockets, self._others = found, others
        gone = known - {item.address for item in found.values()}
        for address in gone:
            # An open call may belong to a socket that is being closed.
            if not self._links[address].open:
                del self._links[address]
        self._make_room()

    def _look(
        self, number: int, seconds: float, found: dict[int, CountedConnection], others: set[int]
    ) -> None:
        """Read one open file, and add it to `found` if it is a connection to the port."""
        with suppress(OSError):
            status = os.fstat(number)
            inode = status.st_ino
            if not stat.S_ISSOCK(status.st_mode):
                return
            if inode in self._others:
                others.add(inode)
                return
            with _duplicate(number, inode) as copy:
                item = self._sockets.get(inode) or self._identified(copy)
                if item is None:
                    others.add(inode)
                    return
                item.number = number
                found[inode] = item
                info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                answered, received = _TCP_INFO.unpack(info)
                reason = item.judge(received, seconds, answered)
                if reason:
                    item.cut(copy, reason)

    def _identified(self, copy: socket.socket) -> CountedConnection | None:
        """The connection of a socket; None for a socket of another port."""
        if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
            return None
        if copy.getsockname()[1] != self._port:
            return None
        try:
            host, port = copy.getpeername()[:2]
        except OSError:
            # The socket is listening, or is being closed.
            return None
        address = _address(host, str(port))
        return CountedConnection(address, self._links.setdefault(address, Link()))

    def _make_room(self) -> None:
        """Cut connections of the host that has the most, if there are too many."""
        if len(self._sockets) < self._most * CROWDED:
            return
        hosts = Counter(peer_of(item.address[0]) for item in self._sockets.values())
        crowd, count = hosts.most_common(1)[0]
        surplus = len(self._sockets) - int(self._most * ROOMY)
        log.warning("too many connections", host=crowd, connections=count)
        for inode, item in self._sockets.items():
            if surplus and not item.link.open and peer_of(item.address[0]) == crowd:
                surplus -= 1
                with suppress(OSError), _duplicate(item.number, inode) as copy:
                    copy.shutdown(socket.SHUT_RDWR)


@contextmanager
def _duplicate(number: int, inode: int) -> Iterator[socket.socket]:
    """A duplicate of the socket with this descriptor.

    gRPC may close the descriptor at any time, and another file may get its number. The duplicate remains
    valid.

    Raises:
        OSError: the descriptor belongs to another file by now.
    """
    with socket.socket(fileno=os.dup(number)) as copy:
        if os.fstat(copy.fileno()).st_ino != inode:
            raise OSError("the file was closed")
        yield copy


def _address(host: str, port: str) -> Address:
    """An address in normal form, so that addresses of gRPC and of the kernel can be compared."""
    host = host.partition("%")[0].removeprefix("::ffff:")
    return host, int(port) if port.isdecimal() else 0
