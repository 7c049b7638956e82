"""Run a program that ends with its parent: ``python -I -S bound.py COMMAND...`` (Linux).

The file is run by its path, imports none of Licorne's packages, and executes the program in its own process.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""See prctl(2); it stays over execve(2)."""

if __name__ == "__main__":
    # SIGKILL, because an API server that gets SIGTERM after the end of its etcd waits for etcd forever.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])
