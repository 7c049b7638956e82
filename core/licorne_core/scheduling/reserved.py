"""The asks that a node is reserved for: which of them to try next (spec § 8.6)."""

from collections.abc import Iterable
from heapq import heappop, heappush

from licorne_core.apps.application import Application
from licorne_core.asks import AskClass
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.ranking import Key, Ranking
from licorne_core.reservations import Reservation
from licorne_core.scheduling.order import app_key, queue_key

Owner = tuple[Queue, Application, AskClass]

_Entry = tuple[tuple[int, float, int], int, Reservation]
"""A reservation by the place of its ask; the number keeps reservations from being compared."""


class ReservedAsks:
    """All reservations of a partition; those that are `ready` are worth a try.

    One that was tried in vain is not ready again before its node changes, or a gate opens that
    its ask class stands at. Those that are ready are ranked as the regular pass ranks: queues in
    their parents, applications in their leaves, asks in their applications.
    """

    __slots__ = (
        "_asks",
        "_by_class",
        "_kept",
        "_made",
        "_new",
        "_owners",
        "_rankings",
        "_root",
        "ready",
    )

    def __init__(self, root: Queue) -> None:
        """None yet, in the queues below this one."""
        self._root = root
        self._made = 0
        self._owners: dict[Reservation, Owner] = {}
        self._by_class: dict[AskClass, dict[Reservation, None]] = {}
        self._rankings: dict[Queue, Ranking[Queue | Application]] = {}
        self._asks: dict[Application, list[_Entry]] = {}
        self._new: dict[Reservation, None] = {}
        self._kept: dict[Reservation, str] = {}
        self.ready: dict[Reservation, None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._owners)

    def add(self, reservation: Reservation, owner: Owner) -> None:
        """A new one, for an ask that fits on its node not yet."""
        self._owners[reservation] = owner
        ask_class = owner[2]
        self._by_class.setdefault(ask_class, {})[reservation] = None
        if ask_class.size is not ask_class:
            self._by_class.setdefault(ask_class.size, {})[reservation] = None

    def remove(self, reservation: Reservation) -> Owner:
        """One that has ended; whose it was."""
        if reservation in self.ready:
            self.rest(reservation)
        self._kept.pop(reservation, None)
        owner = self._owners.pop(reservation)
        for ask_class in {owner[2]: None, owner[2].size: None}:
            alike = self._by_class[ask_class]
            del alike[reservation]
            if not alike:
                del self._by_class[ask_class]
        return owner

    def owner(self, reservation: Reservation) -> Owner:
        """The leaf, the application and the class of the ask."""
        return self._owners[reservation]

    # Waking

    def wake(self, ask_class: AskClass) -> None:
        """Something changed for asks of the class."""
        self._wake(self._by_class.get(ask_class, ()))

    def wake_on(self, node: Node) -> None:
        """Something changed on the node."""
        self._wake(node.reservations.values())

    def wake_kept(self, gate: str) -> None:
        """Those that were kept back by such a gate may pass it now."""
        self._wake([reservation for reservation, kept in self._kept.items() if kept == gate])

    def wake_all(self) -> None:
        """Everything may have changed, the settings that keys follow included."""
        self._rankings.clear()
        self._asks.clear()
        self._kept.clear()
        self.ready = dict.fromkeys(self._owners)
        self._new = dict.fromkeys(self._owners)

    def _wake(self, reservations: Iterable[Reservation]) -> None:
        for reservation in reservations:
            self._kept.pop(reservation, None)
            if reservation not in self.ready:
                self.ready[reservation] = None
                self._new[reservation] = None

    # Order

    def first(self, types: tuple[str, ...]) -> Reservation:
        """The first of those ready, in the order of queues, applications and asks."""
        for reservation in self._new:
            self._rank(reservation, types)
        self._new.clear()
        item: Queue | Application | None = self._root
        while isinstance(item, Queue):
            item = self._rankings[item].top()
        assert item is not None, "what is ranked has something ready"
        return self._asks[item][0][2]

    def rest(self, reservation: Reservation, kept: str = "") -> None:
        """It was tried in vain, or has ended; `kept`: by this gate, that `wake_kept` opens."""
        del self.ready[reservation]
        if kept:
            self._kept[reservation] = kept
        if reservation in self._new:
            del self._new[reservation]
            return
        leaf, app, _ = self._owners[reservation]
        asks = self._asks[app]
        while asks and asks[0][2] not in self.ready:
            heappop(asks)
        if not asks:
            del self._asks[app]
            self._unrank(leaf, app)

    def rank_app(self, app: Application, leaf: Queue) -> None:
        """The application's key may have changed."""
        if app in self._asks:
            self._rankings[leaf].put(app, app_key(app, leaf))

    def rank_queue(self, queue: Queue, key: Key) -> None:
        """The queue has another key."""
        if queue in self._rankings and queue.parent is not None:
            self._rankings[queue.parent].put(queue, key)

    def _rank(self, reservation: Reservation, types: tuple[str, ...]) -> None:
        leaf, app, _ = self._owners[reservation]
        self._made += 1
        entry = (app.pending[reservation.key][:3], self._made, reservation)
        if app in self._asks:
            heappush(self._asks[app], entry)
            return
        self._asks[app] = [entry]
        is_new = leaf not in self._rankings
        self._rankings.setdefault(leaf, Ranking()).put(app, app_key(app, leaf))
        for queue in leaf.lineage:
            if not is_new or queue.parent is None:
                break
            is_new = queue.parent not in self._rankings
            key = queue_key(queue, priority_sort=queue.parent.settings.priority_sort, types=types)
            self._rankings.setdefault(queue.parent, Ranking()).put(queue, key)

    def _unrank(self, queue: Queue, item: Queue | Application) -> None:
        """Nothing is ready there any more; nor above it, if that was the last."""
        ranking = self._rankings[queue]
        ranking.discard(item)
        if not len(ranking):
            del self._rankings[queue]
            if queue.parent is not None:
                self._unrank(queue.parent, queue)
