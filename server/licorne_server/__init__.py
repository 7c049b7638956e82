"""The service: the core behind gRPC and HTTP, and the commands that run it.

gRPC's fork handlers are disabled in this process. Its C core installs them for children that make calls,
unless an environment variable disables them when it is loaded. They stop the parent's threads and wait for
them; if that fails, the child crashes. The only forks of this process are copies
(`engine/copied_process.py`), which make no call.
"""

import os
import sys

FORK_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"
_OFF = "0"

GRPC_HANDLES_FORKS = "grpc" in sys.modules and os.environ.get(FORK_VARIABLE) != _OFF
"""True if a program that embeds a server had already loaded gRPC, with its fork handlers enabled."""

# gRPC has no other switch than this environment variable.
os.environ[FORK_VARIABLE] = _OFF
