"""One thread beside the event loop, in which configurations are parsed and printed.

The largest configuration that is allowed takes some seconds to parse. In the loop nobody would be
served meanwhile.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from licorne_core.config import SubmittedConfig, submitted

T = TypeVar("T")


class ConfigThread:
    """The one thread for all configurations, whether they come over gRPC or HTTP.

    It is one thread only, so that many callers together slow the loop no more than one does. Work
    is done in the order in which it came. Work that its caller gave up on is not begun; what was
    begun is finished before the next.
    """

    def __init__(self) -> None:
        """The thread starts with the first work."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="config")

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work in the thread; what it returns or raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def parse(self, text: str) -> SubmittedConfig:
        """Parse a configuration for a command; an empty text waits for nobody."""
        return await self.run(partial(submitted, text)) if text else None

    def stop(self) -> None:
        """Begin nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
