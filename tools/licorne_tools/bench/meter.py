"""What a piece of work takes: time, and the CPU of both sides."""

import time
from dataclasses import dataclass

from licorne_server.commands.server_process import cpu_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds on the clock, and CPU seconds of the server and of this process, its client."""

    seconds: float
    server: float
    client: float

    @property
    def server_core_percent(self) -> float:
        """CPU of the server as a share of one core."""
        return self.server / self.seconds * 100

    @property
    def client_core_percent(self) -> float:
        """CPU of the client as a share of one core."""
        return self.client / self.seconds * 100


class Meter:
    """Measures from its making on."""

    def __init__(self, pid: int) -> None:
        """The server is the process `pid`."""
        self._pid = pid
        self._server = cpu_seconds(pid)
        self._client = time.process_time()
        self._start = time.perf_counter()

    def read(self) -> Cost:
        """What it has been so far."""
        seconds = time.perf_counter() - self._start
        return Cost(
            seconds=seconds,
            server=cpu_seconds(self._pid) - self._server,
            client=time.process_time() - self._client,
        )
