"""Defects that other schedulers have had; each is a scene of `core/test_museum.py`."""

from mutants.defect import Defect

_ALLOCATIONS = "core/licorne_core/handlers/allocations.py"
_APPS = "core/licorne_core/handlers/apps.py"
_BOOKS = "core/licorne_core/books.py"
_CYCLE = "core/licorne_core/scheduling/cycle.py"
_PENDING = "core/licorne_core/pending.py"
_PLACEHOLDERS = "core/licorne_core/placeholders.py"
_VICTIMS = "core/licorne_core/preemption/victims.py"

_MUSEUM = "tests/core/test_museum.py::"
_EVERYTHING = _MUSEUM + "test_releasing_everything_while_asks_wait_frees_the_user"
_COMPLETING = _MUSEUM + "test_removing_a_completing_application_frees_its_queue"
_COUNTS_ONCE = _MUSEUM + "test_a_placeholder_counts_once_however_it_ends"
_RESERVED = _MUSEUM + "test_a_reservation_ends_with_its_ask_its_application_and_its_node"

MUSEUM = (
    Defect(
        "usage-stays-while-asks-wait",
        _BOOKS,
        "    for quota in app.quotas:\n        refund(quota.allocated, items)",
        "    for quota in app.leaf.lineage if app.pending_total else app.quotas:\n"
        "        refund(quota.allocated, items)",
        "a user is charged for ever for what is released while asks wait",
        (_EVERYTHING,),
    ),
    Defect(
        "everything-is-only-the-asks",
        _ALLOCATIONS,
        "for known in [*app.pending(), *app.replacing(), *app.booked()]]",
        "for known in [*app.pending(), *app.replacing()] or [*app.booked()]]",
        "a release of everything spares what runs if anything waits",
        (_EVERYTHING,),
    ),
    Defect(
        "removed-while-completing",
        _APPS,
        "    for request in part.take(app.booked()):",
        "    for request in part.take(app.booked()) if updates else ():",
        "an application that is removed while it completes leaves usage in its queue",
        (_COMPLETING,),
    ),
    Defect(
        "completed-before-it-is-freed",
        _APPS,
        "if goes and app.state is not AppState.COMPLETING:",
        "if goes:",
        "an application that is removed while it completes has left its queue before it is freed",
        (_COMPLETING,),
    ),
    Defect(
        "booked-where-it-was-reserved",
        _CYCLE,
        "return leaf, app, request, found\n            if isinstance(found, ToGiveUp):",
        "return leaf, app, request, self._nodes[reservation.node_id]\n"
        "            if isinstance(found, ToGiveUp):",
        "a reserved ask for which another node is found is booked on the reserved one",
        (_MUSEUM + "test_a_reserved_ask_that_goes_elsewhere_is_booked_there",),
    ),
    Defect(
        "victim-is-told-twice",
        _VICTIMS,
        "if request.state not in MAY_GO:",
        "if request.allocation is None:",
        "who was told to stop may be a victim once more",
        (_MUSEUM + "test_the_next_ask_has_other_victims",),
    ),
    Defect(
        "siblings-preempt-each-other",
        _VICTIMS,
        "if leaf is self._leaf or self._protected in leaf.lineage:",
        "if leaf is self._leaf:",
        "two queues that share a guarantee take each other's places for ever",
        (_MUSEUM + "test_siblings_below_one_guarantee_do_not_preempt_each_other",),
    ),
    Defect(
        "placeholder-counts-when-told-and-when-gone",
        _PLACEHOLDERS,
        "if placeholder.state is RequestState.PLACEHOLDER:",
        "if placeholder.state in (RequestState.PLACEHOLDER, RequestState.RELEASING):",
        "a placeholder that was told to stop counts again when it is gone",
        (_COUNTS_ONCE,),
    ),
    Defect(
        "replaced-placeholder-times-out",
        "core/licorne_core/pairs.py",
        "self._placeholders.replace(group)",
        "self._placeholders.time_out(group)",
        "a placeholder that was replaced counts as one that nobody wanted",
        (_MUSEUM + "test_a_placeholder_replaced_on_another_node_counts_once",),
    ),
    Defect(
        "recovered-placeholder-is-unknown",
        _ALLOCATIONS,
        "    if ask.placeholder:\n        app.placeholder_came(ask)\n",
        "",
        "a placeholder that the RM brings along is none of its group",
        (_MUSEUM + "test_a_recovered_placeholder_counts",),
    ),
    Defect(
        "allocation-without-a-key",
        _ALLOCATIONS,
        "    if not ask.key:",
        "    if not (ask.key or ask.node_id):",
        "an allocation without a key is recovered, and releasing it releases its application",
        (_MUSEUM + "test_no_allocation_is_without_a_key",),
    ),
    Defect(
        "reserved-for-nobody",
        _PENDING,
        "        self._changes.app_changed(app)\n        if request.reservation is not None:",
        "        self._changes.app_changed(app)\n        if request.reservation is None:\n"
        "            return\n        if request.promise:",
        "a node stays reserved for an ask that is not there any more",
        (_RESERVED,),
    ),
    Defect(
        "reserved-on-nothing",
        "core/licorne_core/cluster.py",
        "        self._reservations.leave(node, now)\n",
        "",
        "a reservation outlives its node",
        (_RESERVED,),
    ),
    Defect(
        "promised-to-nobody",
        "core/licorne_core/scheduling/reserving.py",
        "promise = self.promises.end(reservation)",
        "promise = self.promises.find(reservation)",
        "what was promised to an ask is kept when it is gone",
        (_MUSEUM + "test_a_promise_ends_with_its_ask",),
    ),
    Defect(
        "recovered-within-limits",
        _ALLOCATIONS,
        '        raise Rejected(f"failed to find node {ask.node_id}", Refusal.UNKNOWN_NODE)\n'
        "    node = partition.nodes.by_id[ask.node_id]\n"
        "    check_growth(partition, ask.key, (), ask.ask_class.items, node)\n",
        '        raise Rejected(f"failed to find node {ask.node_id}", Refusal.UNKNOWN_NODE)\n'
        "    node = partition.nodes.by_id[ask.node_id]\n"
        "    if not node.takes(ask.ask_class):\n"
        '        raise Rejected("no room", Refusal.TOO_MANY)\n',
        "what runs already is rejected where its node is full",
        (_MUSEUM + "test_what_runs_is_recovered_whatever_the_limits_say",),
    ),
)
