"""Defects of what follows from a decision, a release, a node and an answer."""

from mutants.defect import Defect

_ALLOCATING = "core/licorne_core/allocating.py"
_PENDING = "core/licorne_core/pending.py"
_BOOKS = "core/licorne_core/books.py"
_PREDICATES = "core/licorne_core/handlers/predicates.py"
_FOREIGN = "core/licorne_core/handlers/foreign.py"
_NODES = "core/licorne_core/handlers/nodes.py"
_CLUSTER = "core/licorne_core/cluster.py"
_RESERVING = "core/licorne_core/scheduling/reserving.py"
_CHANGES = "core/licorne_core/scheduling/changes.py"
_WAKEUPS = "core/licorne_core/scheduling/wakeups.py"
_STATE_AWARE = "core/licorne_core/queues/state_aware.py"
_AGENDA = "core/licorne_core/agenda.py"
_REQUESTS = "core/licorne_core/apps/requests.py"
_PREDICATE_RESULTS = "core/licorne_core/scheduling/predicate_results.py"

_TEST_PREDICATE_RESULTS = "tests/core/scheduling/test_predicate_results.py"
_TEST_PREDICATES = "tests/core/scheduling/test_predicates.py"
_TEST_RESERVATIONS = "tests/core/scheduling/test_reservations.py"
_TEST_RESERVED_STARTS = "tests/core/scheduling/test_reserved_starts.py"
_TEST_ROLL_BACKS = "tests/core/scheduling/test_roll_backs.py"
_TEST_RANKING_WORK = "tests/core/scheduling/test_ranking_work.py"
_TEST_WAKEUPS = "tests/core/scheduling/test_wakeups.py"
_TEST_REQUESTS = "tests/core/apps/test_requests.py"
_TEST_AGENDA = "tests/core/test_agenda.py"
_TEST_BOOKS = "tests/core/test_books.py"
_TEST_SCHEDULER_NODES = "tests/core/test_scheduler_nodes.py"
_TEST_DECISIONS = "tests/properties/test_decisions.py::test_decides_as_the_oracle_does"

STEPS = (
    Defect(
        "alone-for-ever",
        _CHANGES,
        "if self._alone and (self._leaves or self._wakeups.any_foremost):",
        "if self._alone and self._wakeups.any_foremost:",
        "a queue that was alone is compared with what it had before",
        (_TEST_RANKING_WORK,),
    ),
    Defect(
        "roll-back-starts-nobody",
        _ALLOCATING,
        "self._wakeups.may_run_again(app.leaf.lineage)",
        "pass",
        "an ask that is taken back lets nobody start in its queue",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "end-starts-nobody",
        _ALLOCATING,
        "self._wakeups.may_run_again(app.trackers)",
        "pass",
        "an application that ends lets nobody of its user start",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "queue-room-wakes-nobody",
        _ALLOCATING,
        "self._wakeups.room_in(app.quotas)",
        "self._wakeups.room_in(app.trackers)",
        "who waits for a queue's maximum is not woken",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "reservation-stays",
        _ALLOCATING,
        "if request.reservation is not None:",
        "if request.reservation is not None and app.backoff_until:",
        "an ask that was served keeps its node",
        (_TEST_RESERVATIONS,),
    ),
    Defect(
        "daemon-shares",
        _ALLOCATING,
        "if node.reservations and request.ask.ask_class.required_node is not None:",
        "if node.reservations and request.ask.ask_class.required_node is None:",
        "asks that require a node leave it to those who have it reserved",
        (_TEST_RESERVATIONS,),
    ),
    Defect(
        "asked-back-is-first",
        _ALLOCATING,
        "        request.arrival = app.arrivals\n",
        "",
        "an ask that could not be run stays first of its equals",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "demand-ends-nothing",
        _PENDING,
        "        self._wakeups.waiting.unpark(group)\n        app.ranking.discard(group)",
        "        app.ranking.discard(group)",
        "a group without asks waits for ever",
        (_TEST_DECISIONS,),
    ),
    Defect(
        "unbooked-in-part",
        _BOOKS,
        "        refund(quota.allocated, items)",
        "        refund(quota.allocated, items[:1])",
        "quotas keep what was given back of a second type",
        (_TEST_BOOKS,),
    ),
    Defect(
        "trace-of-a-type",
        _BOOKS,
        "if left or name in node.capacity:",
        "if name:",
        "a node shows a type that it never had",
        (f"{_TEST_BOOKS}::test_a_type_that_the_node_has_not_leaves_no_trace",),
    ),
    Defect(
        "foreign-adds-up",
        _BOOKS,
        "refund(node.occupied, before)",
        "refund(node.occupied, ())",
        "each size of a foreign allocation counts beside the former",
        (f"{_TEST_BOOKS}::test_a_foreign_allocation_is_replaced_not_added",),
    ),
    Defect(
        "earliest-gives-way",
        _PREDICATES,
        "in reversed(_assumed_on(partition, node)):",
        "in _assumed_on(partition, node):",
        "the ask that was first on a node is taken back",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "any-type-is-mine",
        _PREDICATES,
        "if any(node.available.get(name, 0) < 0 for name, _ in request.ask.ask_class.items):",
        "if any(left < 0 for left in node.available.values()):",
        "asks are taken back for a type that they do not want",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "daemons-leave",
        _PREDICATES,
        "if gone or request.ask.ask_class.required_node is None:",
        "if node.node_id:",
        "a drained node loses what requires it",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "daemons-stay",
        _PREDICATES,
        "if gone or request.ask.ask_class.required_node is None:",
        "if request.ask.ask_class.required_node is None:",
        "asks are assumed on a node that is gone",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "squeezed-by-others",
        _FOREIGN,
        "    roll_back_unfitting(partition, node, now)",
        "    pass",
        "a foreign allocation leaves asks assumed where they do not fit",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "squeezed-by-size",
        _NODES,
        "    roll_back_unfitting(partition, node, now)",
        "    pass",
        "a smaller node keeps asks assumed that do not fit",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "drained-and-kept",
        _NODES,
        "        roll_back_on(partition, node, now, gone=False)",
        "        pass",
        "a drained node keeps the asks that are assumed there",
        (_TEST_ROLL_BACKS,),
    ),
    Defect(
        "cluster-grows-unheard",
        _CLUSTER,
        "self._wakeups.room_in((root,))",
        "pass",
        "who is larger than what is left of the cluster does not hear of a new node",
        (
            _TEST_SCHEDULER_NODES,
            _TEST_DECISIONS,
        ),
    ),
    Defect(
        "shares-of-before",
        _CLUSTER,
        "self._tree.shares_stale = True",
        "self._tree.shares_stale = False",
        "shares are those of the former cluster",
        (_TEST_DECISIONS,),
    ),
    Defect(
        "end-frees-no-place",
        _RESERVING,
        "if not app.is_allocating:",
        "if app.is_allocating:",
        "the end of a reservation lets nobody start",
        (_TEST_RESERVED_STARTS,),
    ),
    Defect(
        "daemons-give-way",
        _RESERVING,
        "if not r.required]",
        "if r.key]",
        "asks that require a node take it from one another",
        (_TEST_RESERVATIONS,),
    ),
    Defect(
        "next-is-not-tried",
        _CHANGES,
        "            self.app_changed(due)",
        "            pass",
        "who starts next is not looked at when an application is removed",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "start-ends-unheard",
        _CHANGES,
        "for app in (before, admission.next_accepted()):",
        "for app in (before,):",
        "who starts next is not looked at when a start has ended",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "successor-unranked",
        _CHANGES,
        "for other in (before, admission.next_accepted()):",
        "for other in (before,):",
        "who starts next is not looked at when the one before has no asks",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "node-wakes-nobody",
        _WAKEUPS,
        "            self.waiting.changed(blocker)\n        if node.reservations:\n",
        "            self.waiting.changed(blocker)\n        if node.foreign:\n",
        "what comes free on a reserved node is not used",
        (_TEST_RESERVATIONS,),
    ),
    Defect(
        "gone-and-waiting",
        _CHANGES,
        "            self._unpark_all(app)\n            leaf.ranking",
        "            leaf.ranking",
        "an application that is taken out still waits inside",
        (_TEST_DECISIONS,),
    ),
    Defect(
        "left-and-next",
        _STATE_AWARE,
        "            self._accepted.discard(app)",
        "            pass",
        "an application that has gone is the next to start for ever",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "due-by-deadline",
        _AGENDA,
        "        due.sort(key=_number)\n",
        "",
        "what is due together fires in the order of deadlines",
        (_TEST_AGENDA,),
    ),
    Defect(
        "ahead-by-leaving",
        _AGENDA,
        "self._departed[rm_id] = rm.last_turn",
        "self._departed[rm_id] = 0",
        "who registers anew gets a turn before others",
        (_TEST_AGENDA,),
    ),
    Defect(
        "last-turn-of-all",
        _AGENDA,
        "place.last_turn = rm.last_turn = self._turns",
        "place.last_turn = rm.last_turn = 1",
        "turns go to the one that registered first",
        (_TEST_AGENDA,),
    ),
    Defect(
        "turns-go-round-partitions",
        _AGENDA,
        "self._waiting.put(rm_id, (rm.last_turn, rm.number))",
        "self._waiting.put(rm_id, rm.waiting.first()[0])",
        "an RM gets as many turns as it has partitions",
        (_TEST_AGENDA,),
    ),
    Defect(
        "linked-takes-no-room",
        _REQUESTS,
        "- {RequestState.PENDING, RequestState.RELEASED}",
        "- {RequestState.PENDING, RequestState.RELEASED, RequestState.LINKED}",
        "a real request beside its placeholder is not booked",
        (_TEST_REQUESTS,),
    ),
    Defect(
        "released-comes-back",
        _REQUESTS,
        "(_S.PREEMPTING, _E.RELEASE): _S.RELEASED,",
        "(_S.PREEMPTING, _E.RELEASE): _S.PENDING,",
        "a victim is pending again",
        (_TEST_REQUESTS,),
    ),
    Defect(
        "answer-about-before",
        _PREDICATE_RESULTS,
        "if node.known_version == versions[0]:",
        "if versions:",
        "an answer counts for a node that has changed since it was asked about",
        (_TEST_PREDICATE_RESULTS,),
    ),
    Defect(
        "silence-is-no-lesson",
        _PREDICATES,
        "partition.predicates.owed.is_silent = True",
        "partition.predicates.owed.is_silent = False",
        "a silent RM is asked as much as ever",
        (_TEST_PREDICATES,),
    ),
)
