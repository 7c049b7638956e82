"""Helpers for tests of programs built on Licorne: a server in the test's own loop, a fake resource manager,
a proxy that simulates failures, and a clock that moves only on request. See docs/testing.md."""

from licorne_server.testing.fake_rm import FakeRM
from licorne_server.testing.proxy import Proxy
from licorne_server.testing.serving import Served, VirtualClock, serve

__all__ = ["FakeRM", "Proxy", "Served", "VirtualClock", "serve"]
