"""Addresses to connect to: given by the caller, or of other members, as sent by the server.

The order is that of `clients/contract.md`.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from licorne.values import shown

MOST_TOLD = 16
"""Maximum number of addresses of other members that are used."""
LONGEST_TOLD = 260
"""Maximum characters of such an address: a DNS name with a port."""
PASSED_OVER = 15.0
"""Seconds for which an address without a server is skipped if there is another one. This exceeds most leases,
after which another member serves the RMs of the lost member.
"""
SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")
"""Schemes of targets in gRPC's own syntax, which only gRPC can check."""

_TOLD = re.compile(r"(?:\[[0-9A-Za-z:.%_-]+\]|[0-9A-Za-z._-]+):[0-9]{1,5}")
_GIVEN = re.compile(r"(?:\[[^\]/\s]+\]|[^:/\[\]\s]+)(?::([0-9]{1,5}))?")
MAX_PORT = 65_535

Target = str | Sequence[str]
"""One address, ``host:port``, or several: separated by commas, as a list, or both."""


def addresses_of(target: Target) -> tuple[str, ...]:
    """The addresses of a target, in order and without duplicates.

    Raises TypeError if it is neither a text nor a list of texts, and ValueError for an invalid address.
    """
    entries: object = [target] if isinstance(target, str) else target
    if not isinstance(entries, Sequence) or not all(isinstance(entry, str) for entry in entries):
        raise TypeError(f"target is {shown(target)}: it must be host:port, or a list of such texts")
    found = [address.strip() for entry in entries for address in entry.split(",")]
    if not found:
        raise ValueError("target is empty: it must name an address, host:port")
    for address in found:
        if not is_address(address):
            within = "" if address == target else f", within {shown(target)}"
            raise ValueError(f"target is {shown(address)}{within}: it must be host:port")
    return tuple(dict.fromkeys(found))


def is_address(text: str) -> bool:
    """True for ``host:port`` or ``host``, and for other forms that gRPC supports."""
    if text.startswith(SCHEMES) and text.isprintable() and " " not in text:
        return text not in SCHEMES
    parts = _GIVEN.fullmatch(text)
    if parts is not None:
        return parts[1] is None or 0 < int(parts[1]) <= MAX_PORT
    return text.count(":") > 1 and _is_ip(text)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Addresses:
    """Chooses the address to connect to next. All times are in seconds of one clock.

    A round begins with the address of the last welcome. The addresses given by the caller follow, and then
    those of the other members, as sent with that welcome.
    """

    def __init__(self, given: Sequence[str], may_dial: Callable[[str], bool] = lambda _: True) -> None:
        """Begin with the first of `given`; `may_dial` is True for addresses from servers that may be used."""
        self.given = tuple(given)
        self.current = self.given[0]
        """The address to connect to."""
        self.failures = Counter[str]()
        """Number of failures at each address since the last welcome."""
        self.reasons: dict[str, str] = {}
        """Reason of the last failure that was logged, by address."""
        self._may_dial = may_dial
        self._told: tuple[str, ...] = ()
        self._home = self.current
        """The address of the last welcome; before that, the first address."""
        self._left = list(self.given[1:])
        """The addresses that are still to be tried in this round."""
        self._redirected_by = ""
        """The address whose server redirected the client to the current one; empty if none did."""
        self._silent: dict[str, float] = {}
        """By address without an answering server: the time until which it is skipped."""

    def __str__(self) -> str:
        """The addresses that the caller gave."""
        return ", ".join(self.given)

    def known(self) -> list[str]:
        """The current address, and then all others in the order of a round."""
        return list(dict.fromkeys((self.current, self._home, *self.given, *self._told)))

    def welcomed(self, told: Iterable[str]) -> None:
        """Record a welcome by the server at the current address, which named the other addresses `told`."""
        self._home, self._redirected_by = self.current, ""
        self._silent.pop(self.current, None)
        self.failures.clear()
        self.reasons.clear()
        self.tell(told)

    def tell(self, told: Iterable[str]) -> None:
        """Replace the addresses of the other members.

        An address is left out if it is not ``host:port`` or is too long, or after the first `MOST_TOLD`.
        """
        few = dict.fromkeys(islice(told, MOST_TOLD))
        sound = (address for address in few if len(address) <= LONGEST_TOLD and _TOLD.fullmatch(address))
        self._told = tuple(filter(self._may_dial, sound))
        known = self.known()
        self._silent = {address: until for address, until in self._silent.items() if address in known}

    def redirected(self, address: str) -> None:
        """Make the address to which the server redirects the next address."""
        self._redirected_by = self._redirected_by or self.current
        self.current = address

    def lost(self) -> None:
        """Begin a round, because the stream that was welcomed has ended."""
        self._begin(self._round())

    def left(self, now: float) -> None:
        """Begin a round after the stream of a stopping server, which is tried last."""
        first, *others = self._round()
        self._begin([*self._living(others, now), first])

    def failed(self, now: float, *, answered: bool) -> bool:
        """Change to the next address after a failed attempt; returns True if it should be dialed immediately.

        `answered` is True if a server has answered. After a redirect, the redirecting server is next.
        """
        if answered:
            self._silent.pop(self.current, None)
        elif self.current in self._round():
            self._silent[self.current] = now + PASSED_OVER
        if self._redirected_by:
            self.current, self._redirected_by = self._redirected_by, ""
            return False
        if not self._left:
            order = self._round()
            self._begin(self._living(order, now) or order)
            return False
        self.current = self._left.pop(0)
        return not answered

    def refused(self) -> bool:
        """Drop the current address if only another server has named it; returns True if it was dropped.

        Such an address may belong to another program now. Call `failed` next.
        """
        if self._redirected_by or self.current not in self._told or self.current in (self._home, *self.given):
            return False
        self._told = tuple(address for address in self._told if address != self.current)
        return True

    def _round(self) -> list[str]:
        return list(dict.fromkeys((self._home, *self.given, *self._told)))

    def _living(self, addresses: Iterable[str], now: float) -> list[str]:
        return [address for address in addresses if self._silent.get(address, now) <= now]

    def _begin(self, addresses: list[str]) -> None:
        self._redirected_by = ""
        self.current, *self._left = addresses
