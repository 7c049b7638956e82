"""Switch for gRPC's fork handlers, which are off in this process.

The C core of gRPC has handlers for children that make calls. They are on unless a variable of the
environment says otherwise when it is loaded. They stop threads of the parent and wait for them,
and where they cannot the child crashes. The only forks of this process are copies
(`engine/copied_process.py`), which make no call.
"""

import os
import sys

VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"
_OFF = "0"

CAME_TOO_LATE = "grpc" in sys.modules and os.environ.get(VARIABLE) != _OFF
"""True if gRPC was loaded before with its handlers on, by a program that embeds a server."""

# It is a variable or nothing: gRPC has no other switch.
os.environ[VARIABLE] = _OFF
