"""Sharing of concurrent requests: the answer is made once, for all of them."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Making(Generic[T]):
    """A task under way, and the number of its waiting callers."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiting = 0


class Together(Generic[T]):
    """Makes things in tasks of their own, independent of their first caller."""

    def __init__(self) -> None:
        """Start without tasks."""
        self._under_way: dict[Hashable, _Making[T]] = {}

    async def make(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The thing under way for that key; it is begun if there is none.

        All waiting callers get the same, or the same error. Without any it is cancelled.
        """
        making = self._under_way.get(key)
        if making is None:
            making = self._under_way[key] = _Making(asyncio.create_task(begin(), name=str(key)))
        making.waiting += 1
        try:
            return await asyncio.shield(making.task)
        finally:
            making.waiting -= 1
            if making.task.done() or not making.waiting:
                if self._under_way.get(key) is making:
                    del self._under_way[key]
                making.task.cancel()
