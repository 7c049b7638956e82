"""Addresses of the server are called as by a client, to decide whether they are shut."""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from licorne_server.process.coordination import Coordination
from licorne_server.process.doors import (
    REFUSED_SECONDS,
    REST_SECONDS,
    SILENT_SECONDS,
    TRY_SECONDS,
    Door,
    doors_of,
)
from licorne_server.process.settings import GRPC, LOOP, Settings
from support.peers.shim import LOOPBACK, eventually, serving
from support.peers.tls import tls

REFUSED = f"the http address has refused connections for {REFUSED_SECONDS:g} s"
SILENT = f"the http address has not answered for {SILENT_SECONDS:g} s"
LONG = 3 * (REFUSED_SECONDS + SILENT_SECONDS)


class Place:
    """A listening socket on loopback and its door. Only the test accepts connections."""

    def __init__(self, listening: socket.socket) -> None:
        """Start without a call."""
        self.listening = listening
        place = (listening.family, listening.getsockname())
        self.door = Door("http", place, lambda: b"question")

    def look(self, seconds: float) -> str:
        """Check once a second for this time; return the last result."""
        said = [self.door.look(1.0) for _ in range(int(seconds))]
        return said[-1]

    def answer(self, act: Callable[[socket.socket], None] = lambda one: one.sendall(b"answer")) -> None:
        """Let the door connect and send its question, and answer by `act`."""
        assert self.look(REST_SECONDS + 2) == ""
        connection, _ = self.listening.accept()
        with connection:
            assert connection.recv(100) == b"question"
            act(connection)
            assert self.door.look(1.0) == ""


@pytest.fixture
def place() -> Iterator[Place]:
    """A socket with room for many connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        place = Place(listening)
        yield place
        place.door.close()


def test_an_address_that_answers_is_open(place: Place) -> None:
    """Any answer in time counts as a sign that the address is open."""
    for _ in range(3):
        place.answer()
    place.answer(lambda one: one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)))
    place.answer(lambda one: one.shutdown(socket.SHUT_WR))
    assert place.look(REST_SECONDS + 2) == ""


def test_an_address_that_refuses_is_shut(place: Place) -> None:
    """Without a listener the address counts as shut after its time, and not before."""
    place.answer()
    place.listening.close()
    assert place.look(REST_SECONDS + REFUSED_SECONDS - 2) == ""
    assert place.look(4) == REFUSED


def test_a_removed_socket_is_shut(tmp_path: Path) -> None:
    """A removed Unix socket counts as shut, although the server may still have it open."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        place = Place(listening)
        place.answer()
        (tmp_path / "socket").unlink()
        assert place.look(REST_SECONDS + REFUSED_SECONDS + 2) == REFUSED


def test_a_silent_address_is_shut(place: Place) -> None:
    """Unanswered connections count, over all tries, and an answer restarts the time."""
    place.answer()
    assert place.look(REST_SECONDS + SILENT_SECONDS / 2) == ""
    for _ in range(int(SILENT_SECONDS / TRY_SECONDS) + 1):
        place.listening.setblocking(False)
        try:
            place.listening.accept()[0].close()
        except BlockingIOError:
            break
    place.listening.setblocking(True)
    assert place.door.look(1.0) == ""
    assert place.look(REST_SECONDS + SILENT_SECONDS / 2) == ""
    assert place.look(SILENT_SECONDS) == SILENT


def test_silence_before_the_first_answer_does_not_count(place: Place) -> None:
    """Before the first answer silence may be due to a firewall, for example; a refusal always counts."""
    assert place.look(LONG) == ""
    place.door.close()
    place.listening.close()
    assert place.look(REFUSED_SECONDS + 2) == REFUSED


def test_a_full_backlog_does_not_count(tmp_path: Path) -> None:
    """Connections that the kernel has no room for do not count against the server."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen(0)
        place = Place(listening)
        place.answer()
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(tmp_path / "socket"))
            assert place.look(LONG) == ""
        place.door.close()


def test_a_refusal_of_another_machine_does_not_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address on another machine does not count, until it is on this machine again."""

    class Moved(socket.socket):
        def bind(self, _: object) -> None:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))

    place.answer()
    place.listening.close()
    with monkeypatch.context() as moved:
        moved.setattr(socket, "socket", Moved)
        assert place.look(LONG) == ""
    assert place.look(REFUSED_SECONDS + 2) == REFUSED


def test_a_lack_of_descriptors_does_not_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that can open no socket accepts nothing, and is not ended for that."""
    plain, opened, most = socket.socket, list[socket.socket](), 1

    def limited(*arguments: int) -> socket.socket:
        if sum(one.fileno() >= 0 for one in opened) >= most:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        opened.append(plain(*arguments))
        return opened[-1]

    place.answer()
    monkeypatch.setattr(socket, "socket", limited)
    assert place.look(LONG) == ""
    most = 0
    assert place.look(LONG) == ""


def test_silence_counts_without_stdin(place: Place) -> None:
    """The check for free descriptors does not use standard input, which may be closed."""
    place.answer()
    assert place.look(REST_SECONDS + 2) == ""
    kept = os.dup(0)
    os.close(0)
    try:
        assert place.look(SILENT_SECONDS + 5) == SILENT
    finally:
        place.door.close()
        os.dup2(kept, 0)
        os.close(kept)


WITH = [GRPC, *([LOOP] if find_spec("licorne_transport") else [])]
"""The transports that can serve gRPC here."""


@pytest.mark.parametrize("transport", WITH)
@pytest.mark.parametrize("secure", [False, True])
async def test_all_addresses_of_a_server_answer(transport: str, secure: bool) -> None:
    """gRPC, HTTP and metrics answer, with TLS where a certificate is needed, and without TLS."""
    served = serving(transport=transport, http=LOOPBACK, metrics=LOOPBACK, tls=tls() if secure else None)
    async with served as server:
        addresses = (server.grpc_address, server.http_address, server.metrics_address)
        found = doors_of(server.settings, *addresses)
        assert [door.name for door in found] == ["grpc", "http", "metrics"]
        for door in found:
            await eventually(lambda door=door: has_answered(door))  # type: ignore[misc]
            door.close()


def has_answered(door: Door) -> bool:
    """True after an answer; the look takes no time."""
    door.look(0.0)
    return door.has_answered


def test_a_worker_is_called_at_its_own_socket(tmp_path: Path) -> None:
    """Common ports may lead to other workers; a worker without its own socket has no door."""
    own = Coordination(backend="local", hosts=("store",), advertise=f"unix:{tmp_path}/1.grpc")
    shared = Settings(coordination=own, tls=tls())
    found = doors_of(shared, "127.0.0.1:7070", "127.0.0.1:9080", "127.0.0.1:9090")
    assert [door.name for door in found] == ["grpc"]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{tmp_path}/1.grpc")
        listening.listen()
        found[0].look(0.0)
        connection, _ = listening.accept()
        with connection:
            # The worker's own socket has plain text, whatever the common ports have.
            assert connection.recv(3) == b"PRI"
        found[0].close()
    assert [door.name for door in doors_of(Settings(), "127.0.0.1:7070", "", "")] == ["grpc"]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_an_address_of_all_interfaces_is_called_on_loopback(host: str) -> None:
    """An address of all interfaces is called on loopback."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host.strip("[]"), 0), family=family) as listening:
        [door] = doors_of(Settings(), f"{host}:{listening.getsockname()[1]}", "", "")
        door.look(0.0)
        connection, _ = listening.accept()
        connection.close()
        door.close()
