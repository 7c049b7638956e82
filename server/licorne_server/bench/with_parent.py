"""Programs of a benchmark end with the process that started them, however that ends.

Their stdin is a pipe from that process, which keeps the other end open for as long as it lives.
"""

import os
import signal
import sys
import threading

CHUNK = 4096


def end_with_parent() -> None:
    """From now on, have this process told to stop (SIGTERM) when its stdin ends."""
    threading.Thread(target=_stop_at_end, args=(sys.stdin.fileno(),), daemon=True).start()


def _stop_at_end(stdin: int) -> None:
    # Not over sys.stdin: a thread that waits there keeps the interpreter from ending in order.
    while os.read(stdin, CHUNK):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
