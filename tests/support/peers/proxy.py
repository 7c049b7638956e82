"""The proxies of the test kit."""

from licorne_server.testing import Proxy
from licorne_server.testing.proxy import Relay

__all__ = ["Proxy", "Relay"]
