"""The listening addresses of a server, in the form in which it prints them, and the address of its page."""

import sys
from dataclasses import dataclass

from licorne_cli.output.text import is_terminal

OFF = "off"
ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Addresses for all interfaces, each with a loopback address that a browser here can open."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The addresses of a server or of all workers, with their ports."""

    grpc: str
    http: str
    """``HOST:PORT``; ``off`` if there is none."""
    metrics: str = ""
    """``HOST:PORT``; empty if there is none."""
    scheme: str = "http"
    """Scheme of the page."""

    @property
    def page(self) -> str:
        """The address of the page; empty without HTTP."""
        host, _, port = self.http.rpartition(":")
        return f"{self.scheme}://{ANY_HOST.get(host, host)}:{port}/ui" if host else ""

    def announce(self) -> None:
        """Print the addresses of the server, and on a terminal the address of its page."""
        metrics = f" metrics={self.metrics}" if self.metrics else ""
        page = f"page {self.page}\n" if self.page and is_terminal(sys.stdout) else ""
        # In one write, as log lines share the terminal.
        sys.stdout.write(f"listening grpc={self.grpc} http={self.http}{metrics}\n{page}")
        sys.stdout.flush()
