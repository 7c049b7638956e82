"""A process with captured logs in which every kind of failure occurs."""

import asyncio
import gc
import logging
import os
import sys
import threading
import warnings

import structlog

from licorne_server.telemetry.logs import process_logs

FORGED = 'x\n{"event": "registered"}\r\x1b[31m\u2028\u202e'


class Failing:
    """An object whose finalizer fails."""

    def __del__(self) -> None:
        """Fail outside of any handler."""
        raise RuntimeError(FORGED)


def fail() -> None:
    """Fail."""
    raise RuntimeError(FORGED)


async def careless() -> None:
    """Create a failing task that nothing awaits, and a failing callback."""
    asyncio.get_running_loop().call_soon(fail)
    task = asyncio.ensure_future(asyncio.to_thread(fail))
    await asyncio.wait([task])
    del task
    gc.collect()


def main() -> None:
    """Write the same text by every means of logging."""
    with process_logs("info"):
        structlog.get_logger().info("own", text=FORGED)
        logging.getLogger("aiohttp.server").error("%s", FORGED)
        warnings.warn(FORGED, stacklevel=1)
        thread = threading.Thread(target=fail, name="failing")
        thread.start()
        thread.join()
        Failing()
        gc.collect()
        asyncio.run(careless())
        os.write(2, FORGED.encode())
        os.write(2, b"I1122 18:00:00.000000 1 transport.cc:1] " + FORGED.encode())
        print(FORGED, file=sys.stderr)
    print("after", file=sys.stderr)


if __name__ == "__main__":
    main()
