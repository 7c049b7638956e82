"""Configurations are read beside the loop, one at a time: a big one takes a tenth of a second."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Reading:
    """One thread for all who ask, over gRPC and HTTP alike, so that many cannot starve the loop.

    What a caller gave up on is not begun; what has begun is finished before the next.
    """

    def __init__(self) -> None:
        """The thread comes with the first text."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reading")

    async def run(self, read: Callable[[], T]) -> T:
        """What `read` gives or raises, when its turn has come."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, read)

    def stop(self) -> None:
        """Begin nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
