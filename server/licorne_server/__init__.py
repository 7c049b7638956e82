"""The service: the core behind gRPC and HTTP, and the commands that run it here.

gRPC's handlers of forks are off in this process. Its C core has them for children that make calls,
unless a variable of the environment says otherwise when it is loaded. They stop threads of the
parent and wait for them, and where they cannot the child crashes. The only forks of this process
are copies (`engine/copied_process.py`), which make no call.
"""

import os
import sys

FORK_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"
_OFF = "0"

GRPC_HANDLES_FORKS = "grpc" in sys.modules and os.environ.get(FORK_VARIABLE) != _OFF
"""True if gRPC was loaded before with its handlers on, by a program that embeds a server."""

# It is a variable or nothing: gRPC has no other switch.
os.environ[FORK_VARIABLE] = _OFF
