"""Places that all callers share: none may take more than its share of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from licorne_server.errors import exhausted


class Places:
    """So many places of one kind, of which each party may have a share.

    A party is an identity: the names in a certificate, or a token. Where callers have none it is
    the address that they call from.
    """

    def __init__(self, what: str, reason: str, total: int, share: int) -> None:
        """`what` is what takes a place, in the plural; `reason` is the code of the refusal."""
        self._what = what
        self._reason = reason
        self._total = total
        self._share = share
        self._taken: dict[str, int] = {}
        self._all = 0

    @contextmanager
    def taken(self, party: str) -> Iterator[None]:
        """Inside the block the party has one place more.

        Raises:
            CallError: RESOURCE_EXHAUSTED, the party has its share, or no place is free.
        """
        count = self._taken.get(party, 0)
        if count >= self._share:
            raise exhausted(f"{self._what}: at most {self._share} of one peer", self._reason)
        if self._all >= self._total:
            raise exhausted(f"{self._what}: at most {self._total}", self._reason)
        self._taken[party] = count + 1
        self._all += 1
        try:
            yield
        finally:
            self._all -= 1
            self._taken[party] -= 1
            if not self._taken[party]:
                del self._taken[party]
