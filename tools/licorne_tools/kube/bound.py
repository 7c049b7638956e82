"""Run a program that ends with its parent: ``python -I -S bound.py COMMAND...`` (Linux).

The file is run by its path and imports nothing of Licorne. Its process becomes that of the program.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""See prctl(2); the setting is preserved across execve(2)."""

if __name__ == "__main__":
    # SIGKILL: after SIGTERM, an API server whose etcd has ended would wait for etcd forever.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])
