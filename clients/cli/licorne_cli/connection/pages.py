"""Lists that the server answers page by page."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar


class PageRequest(Protocol):
    """A request for a part of a list; the first part for an empty token."""

    page_token: str


class Page(Protocol):
    """An answer with a part of a list."""

    next_page_token: str


P = TypeVar("P", bound=Page)


def pages(call: Callable[..., P], request: PageRequest, timeout: float) -> Iterator[P]:
    """All the answers that make up a list; `request` asks for its first page."""
    while True:
        page = call(request, timeout=timeout)
        yield page
        request.page_token = page.next_page_token
        if not request.page_token:
            return
