"""A real etcd on loopback, which a test can kill, pause, restart and wipe.

The program is the system's own, as in Debian's package etcd-server.
"""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Self

from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.coordination.store import Store
from licorne_tools.kube.processes import until_stopped
from support.coordination.backends import LONG
from support.patience import PATIENCE
from support.peers.tls import FILES

MEMORY = Path("/dev/shm")
"""A folder in memory, because etcd waits for its disk with each change."""

PORTS = range(20_000, 32_000)
"""Ports outside the range for automatic assignment, so that a restarted server can use its port again."""

TLS_FLAGS = (
    f"--cert-file={FILES / 'server.pem'}",
    f"--key-file={FILES / 'server.key'}",
    f"--trusted-ca-file={FILES / 'ca.pem'}",
    "--client-cert-auth",
)

_prefixes = count()


class EtcdServer:
    """An etcd of one server. After a restart it has the same address, and the same data unless wiped."""

    def __init__(self, *, tls: bool = False, flags: Sequence[str] = ()) -> None:
        """Create it unstarted. With `tls` it requires certificates; more `flags` are added to its command."""
        self._flags = (*flags, *(TLS_FLAGS if tls else ()))
        self._scheme = "https" if tls else "http"
        self._folder = Path(
            tempfile.mkdtemp(prefix="licorne-etcd-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        )
        self._backup = self._folder / "backup"
        self._client, self._peer, self._health = free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"127.0.0.1:{self._client}"

    def __enter__(self) -> Self:
        """Start it and wait until it is ready."""
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it if it still runs, and remove its data."""
        self.kill()
        shutil.rmtree(self._folder)

    def begin(self) -> None:
        """Start it, without waiting until it is ready."""
        program = shutil.which("etcd")
        assert program is not None, "etcd is not installed; Debian has it in the package etcd-server"
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--data-dir={self._folder / 'data'}",
                    f"--listen-client-urls={self._scheme}://{self.target}",
                    f"--advertise-client-urls={self._scheme}://{self.target}",
                    f"--listen-peer-urls=http://127.0.0.1:{self._peer}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{self._peer}",
                    f"--initial-cluster=default=http://127.0.0.1:{self._peer}",
                    f"--listen-metrics-urls=http://127.0.0.1:{self._health}",
                    "--logger=zap",
                    "--log-level=warn",
                    *self._flags,
                ],
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.begin()
        given_up = time.monotonic() + PATIENCE
        while not self._is_healthy():
            assert self._process is not None
            ended = self._process.poll() is not None
            said = (self._folder / "log").read_text()[-4000:]
            assert not ended, said
            assert time.monotonic() < given_up, said
            time.sleep(0.02)

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._health, timeout=PATIENCE)
        try:
            connection.request("GET", "/health")
            answer = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            connection.close()
        return bool(answer.get("health") == "true")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and no request is answered once all threads are stopped."""
        self._send(signal.SIGSTOP)
        assert self._process is not None
        until_stopped(self._process.pid)

    def resume(self) -> None:
        """SIGCONT."""
        self._send(signal.SIGCONT)

    def restart(self) -> None:
        """kill -9, and start with the same data."""
        self.kill()
        self.start()

    def wipe(self) -> None:
        """kill -9, and start without data."""
        self.kill()
        shutil.rmtree(self._folder / "data")
        self.start()

    def back_up(self) -> None:
        """kill -9, keep a copy of the data, and start again."""
        self.kill()
        shutil.rmtree(self._backup, ignore_errors=True)
        shutil.copytree(self._folder / "data", self._backup)
        self.start()

    def restore(self) -> None:
        """kill -9, and start with the data of the last copy."""
        self.kill()
        shutil.rmtree(self._folder / "data")
        shutil.copytree(self._backup, self._folder / "data")
        self.start()

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def options(self, prefix: str = "") -> Coordination:
        """The options of a member of a deployment, which is a new one without a prefix."""
        prefix = prefix or f"test-{next(_prefixes)}"
        return Coordination(backend="etcd", hosts=(self.target,), prefix=prefix, lease=LONG)


class EtcdBackend:
    """A new deployment in a real etcd."""

    def __init__(self, server: EtcdServer) -> None:
        """Use a running server."""
        self.server = server
        self.options = server.options()

    def open(self, lease: float = LONG) -> Store:
        """A member's store, whose calls are repeated for longer than a running etcd takes to answer."""
        return EtcdStore(replace(self.options, lease=lease), patience=PATIENCE / 4)


def free_ports(number: int) -> list[int]:
    """Free ports of loopback, outside the range of ephemeral ports."""
    held: list[socket.socket] = []
    try:
        for port in random.sample(PORTS, 1000):
            candidate = socket.socket()
            held.append(candidate)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                held.pop().close()
            if len(held) == number:
                return [one.getsockname()[1] for one in held]
        raise AssertionError("there are no free ports")
    finally:
        for one in held:
            one.close()
