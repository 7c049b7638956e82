"""`licorne` as a child that ends with its parent: ``python -m licorne_server.commands.child COMMAND...``

It imports no other module of the project when it is loaded, so that benches can run it by its path.
"""

import os
import signal
import sys
import threading

CHUNK = 4096


def end_with_parent() -> None:
    """Send SIGTERM to this process when its stdin ends.

    Stdin is a pipe from the parent, which keeps the other end open for as long as it lives.
    """
    threading.Thread(target=_stop_at_end, args=(sys.stdin.fileno(),), daemon=True).start()


def _stop_at_end(stdin: int) -> None:
    # Not sys.stdin: a thread that blocks in it prevents a clean exit of the interpreter.
    while os.read(stdin, CHUNK):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    from licorne_cli.commands import main

    end_with_parent()
    sys.exit(main())
