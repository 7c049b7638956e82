"""What a ledger knows of nodes, applications and partitions: by this it judges what it hears."""

from collections.abc import Collection

from licorne.v1 import session_pb2 as session
from support.wire.items import home
from support.wire.things import AppTrack, NodeTrack


class Around:
    """What may have been there since things were certain; for `Surroundings`, see there.

    `deaf`: answers about applications do not come at present. `agreed`: application, key and node
    where the RM has agreed to a placement, None where it is not asked. `required`: the nodes that
    asks were said to require.
    """

    def __init__(self) -> None:
        """Nothing is there."""
        self.nodes: dict[str, NodeTrack] = {}
        self.apps: dict[str, AppTrack] = {}
        self.partitions: frozenset[str] = frozenset()
        self.huge = False
        self.required: set[str] = set()
        self.deaf = False
        self.agreed: dict[tuple[str, str, str], None] | None = None
        self._held = False
        # Since things were certain:
        self._was_free = False
        self._ended: set[str] = set()
        self._partitions_once: frozenset[str] = frozenset()
        self._partitions_always: frozenset[str] = frozenset()

    def node(self, node_id: str) -> NodeTrack:
        """The track of a node."""
        return self.nodes.get(node_id) or self.nodes.setdefault(node_id, NodeTrack(node_id, self))

    def app(self, app_id: str) -> AppTrack:
        """The track of an application."""
        return self.apps.get(app_id) or self.apps.setdefault(app_id, AppTrack(app_id, self))

    # ---- What changes beside nodes and applications ----

    def hold(self, *, on: bool) -> None:
        """Scheduling is held from now on, or not any more."""
        self._held = on
        self._was_free = self._was_free or not on

    def configured(self, partitions: frozenset[str]) -> None:
        """The partitions that there are from now on."""
        self.partitions = partitions
        self._partitions_once |= partitions
        self._partitions_always &= partitions

    def registered(self, partitions: frozenset[str], *, held: bool) -> None:
        """Nothing else is there any more."""
        for node in self.nodes.values():
            node.restart(None)
        for app in self.apps.values():
            app.restart(None)
        self.partitions = partitions
        self._held = held
        self.huge = False
        self.required.clear()
        self.agreed = None
        self.certain()

    def answered(self, check: session.PredicateCheck, refused: Collection[str]) -> None:
        """The RM agrees to all nodes of a predicate check but these, or lets it pass."""
        if self.agreed is None or not check.allocate:
            return
        for node_id in check.node_ids:
            place = (check.application_id, check.allocation_key, node_id)
            self.agreed[place] = None
            if node_id in refused:
                del self.agreed[place]

    def end(self, app_id: str) -> None:
        """An application was heard to end."""
        self._ended.add(app_id)

    def certain(self) -> None:
        """Things are certain from now on."""
        self._was_free = not self._held
        self._ended.clear()
        self._partitions_once = self._partitions_always = self.partitions

    # ---- Surroundings ----

    def has_agreed(self, app_id: str, key: str, node_id: str) -> bool:
        """An assumed ask is placed once the RM agrees, also while nothing is scheduled."""
        if self.agreed is None:
            return self._was_free
        return (app_id, key, node_id) in self.agreed

    def may_decide(self) -> bool:
        """Nothing is scheduled while a replay goes on."""
        return self._was_free

    def partition_may_be(self, partition: str, *, there: bool) -> bool:
        """Partitions come and go with configurations."""
        if there:
            return partition in self._partitions_once
        return partition not in self._partitions_always

    def app_may_be(self, app_id: str, *, there: bool) -> bool:
        """An end is only certain once it was heard."""
        track = self.apps.get(app_id)
        if track is None:
            return not there
        if there:
            return any(state is not None for state in track.possible())
        if app_id in self._ended or self.deaf:
            return True
        gone = self.partition_may_be(home(app_id), there=False)
        return gone or None in track.possible()

    def node_may_be(self, node_id: str, *, there: bool) -> bool:
        """Nodes go when they are told to, or with their partition."""
        track = self.nodes.get(node_id)
        if track is None:
            return not there
        if there:
            return any(state is not None for state in track.possible())
        gone = self.partition_may_be(home(node_id), there=False)
        return gone or None in track.possible()

    def may_be_cleared(self, node_id: str) -> bool:
        """Only for an ask that may run nowhere else; nobody is below a guarantee here."""
        return node_id in self.required and self._was_free

    def open_nodes(self) -> frozenset[str]:
        """Those that may have been there and not drained."""
        return frozenset(
            node_id
            for node_id, track in self.nodes.items()
            if any(state is not None and state.schedulable for state in track.possible())
        )
