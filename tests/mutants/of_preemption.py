"""Defects of preemption: when, what is promised, required nodes, changed maxima."""

from mutants.defect import Defect

_CALLS = "core/licorne_core/handlers/preemption.py"
_ESCALATION = "core/licorne_core/scheduling/escalation.py"
_GROUPS = "core/licorne_core/apps/groups.py"
_HOSTS = "core/licorne_core/preemption/hosts.py"
_MEASURES = "core/licorne_core/scheduling/measures.py"
_PROMISES = "core/licorne_core/scheduling/promises.py"
_QUOTAS = "core/licorne_core/quotas.py"
_REFUSALS = "core/licorne_core/handlers/predicates.py"
_REQUIRED = "core/licorne_core/preemption/required_node.py"
_RESERVED = "core/licorne_core/scheduling/reserved.py"
_RESERVING = "core/licorne_core/scheduling/reserving.py"
_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
_SHARES = _SCENARIO + "[preemption]"
_CORNERS = _SCENARIO + "[preemption_corners]"
_JUDGED = _SCENARIO + "[preemption_judged]"
_UNJUDGED = _SCENARIO + "[preemption_unjudged]"
_SIBLINGS = _SCENARIO + "[preemption_siblings]"
_OFF = _SCENARIO + "[preemption_off]"
_KEPT = _SCENARIO + "[promises]"
_ENDED = _SCENARIO + "[promises_that_end]"
_REFUSED = _SCENARIO + "[promises_refused]"
_RESIZED = _SCENARIO + "[promises_resized]"
_RESTING = _SCENARIO + "[promises_that_rest]"
_DAEMONS = _SCENARIO + "[required_node]"
_OTHERS = "tests/core/test_museum.py::test_the_next_ask_has_other_victims"

PREEMPTION = (
    # When
    Defect(
        "preempts-at-once",
        _ESCALATION,
        "group.preemption_request = PreemptionRequest(group, delay, now)",
        "group.preemption_request = PreemptionRequest(group, 0.0, now)",
        "an ask that has just come has others stopped",
        (_SHARES,),
    ),
    Defect(
        "preempts-unasked",
        _GROUPS,
        "return waits(place) and request.ask.allow_preempt_other and not request.triggered",
        "return waits(place) and not request.triggered",
        "an ask that may not preempt others does",
        (_CORNERS,),
    ),
    Defect(
        "preempts-again",
        _GROUPS,
        "return waits(place) and request.ask.allow_preempt_other and not request.triggered",
        "return waits(place) and request.ask.allow_preempt_other",
        "an ask that has had its victims has others stopped",
        (_ENDED,),
    ),
    Defect(
        "off-is-on",
        _MEASURES,
        "if self._scene.preemption.enabled and group.ask_class.required_node is None:",
        "if group.ask_class.required_node is None:",
        "a partition preempts that should not",
        (_OFF,),
    ),
    Defect(
        "user-limit-makes-victims",
        _MEASURES,
        "by_queue = isinstance(blocker, QuotaShortage) and isinstance(blocker.quota, Queue)",
        "by_queue = isinstance(blocker, QuotaShortage)",
        "victims go for an ask that its user's limit stops",
        (_CORNERS,),
    ),
    Defect(
        "ended-call-goes-on",
        _CALLS,
        "if search.stands(app, request, plan, upto, now):",
        "if plan:",
        "victims that the RM agrees to go though the books have changed",
        (_JUDGED,),
    ),
    Defect(
        "rm-is-not-asked",
        "core/licorne_core/scheduling/preempting.py",
        "return self._rm.predicates is not None and request.ask.ask_class.predicate is not None",
        "return False",
        "the RM has no say in who has to go",
        (_JUDGED,),
    ),
    Defect(
        "nodes-are-not-judged",
        _CALLS,
        "        if not proposal.unknown:\n",
        "        if proposal:\n",
        "victims go from a node before the RM has said whether it would do",
        (_UNJUDGED,),
    ),
    Defect(
        "void-consent-counts",
        _CALLS,
        "plan.node.node_id not in refused and check.stands(plan.node)",
        "plan.node.node_id not in refused",
        "victims go from a node that the RM has changed since it agreed to it",
        ("tests/core/preemption/test_node_questions.py",),
    ),
    Defect(
        "kept-nodes-are-not-waited-for",
        _MEASURES,
        "            if found.law is Law.NODES_KEPT:\n",
        "            if found.law is None:\n",
        "the next ask waits for 15 seconds though the node was given up before",
        (_SIBLINGS,),
    ),
    Defect(
        "own-node-is-kept-from-it",
        "core/licorne_core/scheduling/kept_nodes.py",
        "(ask.app_id, ask.key) if has_own else None",
        "None if has_own else None",
        "an ask waits for others though it has a node with victims of its own",
        ("tests/core/preemption/test_kept_nodes.py",),
    ),
    Defect(
        "silence-is-consent",
        _CALLS,
        "if policy is not None and policy.fail_mode is FailMode.OPEN:",
        "if policy is not None:",
        "victims go when the RM does not answer",
        (_JUDGED,),
    ),
    Defect(
        "one-victim-too-few",
        _CALLS,
        "            victims = plan.victims_upto(upto)",
        "            victims = plan.victims_upto(plan.start)",
        "more would have to go, says the RM, and stay",
        (_JUDGED,),
    ),
    # What is promised
    Defect(
        "third-ask-takes-the-quota",
        _QUOTAS,
        "allocated = claimed(quota) if quota.kept else quota.allocated",
        "allocated = quota.allocated",
        "what is freed for one ask is another one's quota",
        (_KEPT,),
    ),
    Defect(
        "promise-in-the-way",
        _PROMISES,
        "value - kept.get(name, 0)) for name, value in items)",
        "value) for name, value in items)",
        "an ask is in its own way when its victims are gone",
        (_SHARES, _KEPT),
    ),
    Defect(
        "promise-twice",
        _PROMISES,
        "uncovered[name] -= value",
        "uncovered[name] -= 0",
        "room is kept free beside that of the victims",
        (_KEPT,),
    ),
    Defect(
        "victims-gone-and-nobody-comes",
        _RESERVING,
        "        if reservation is not None:\n            self._wake(reservation)",
        "",
        "the ask is not tried when its victims elsewhere are gone",
        (_CORNERS,),
    ),
    Defect(
        "promise-outlives-its-hour",
        _RESERVING,
        "RESERVATION_TIME = 3600.0",
        "RESERVATION_TIME = 7200.0",
        "what is promised is kept for two hours",
        (_ENDED,),
    ),
    Defect(
        "promise-stays-booked",
        _PROMISES,
        "        promise.unbook()\n",
        "",
        "a promise that was kept is kept once more",
        (_SHARES, _ENDED),
    ),
    Defect(
        "kept-from-nobody",
        _HOSTS,
        "return other.ask.priority < request.ask.priority and not other.triggered",
        "return other.ask.priority < request.ask.priority",
        "a node that was freed for one ask is taken by another one of higher priority",
        (_CORNERS,),
    ),
    Defect(
        "waits-for-nobody",
        _HOSTS,
        "        if lacking > 0 and going:\n",
        "        if lacking < 0 and going:\n",
        "victims go where others are on their way out already",
        (_OTHERS,),
    ),
    # What is promised while the RM is asked, and when it refuses
    Defect(
        "assumption-ends-the-promise",
        _RESERVING,
        "if promise is None or request.state is not ASSUMED:",
        "if promise is None or request.state is not None:",
        "an ask whose node the RM refuses has nothing promised to it any more",
        (_REFUSED, _RESTING),
    ),
    Defect(
        "resting-promise-is-tried",
        _RESERVED,
        "super().wake(item for item in items if self._owners[item].request.is_pending)",
        "super().wake(items)",
        "an ask about which the RM is asked is tried once more",
        (_RESTING,),
    ),
    Defect(
        "resting-promise-is-kept-twice",
        _RESERVING,
        "            promise.unbook()\n            promise.is_resting = True",
        "            promise.is_resting = True",
        "what was promised to an ask is kept free beside the ask while the RM is asked",
        (_RESTING,),
    ),
    Defect(
        "promise-rests-for-ever",
        _RESERVING,
        "            promise.is_resting = False\n            promise.book()\n",
        "",
        "nothing is kept for an ask that the RM has refused a node",
        (_REFUSED, _RESTING),
    ),
    Defect(
        "refused-node-is-kept",
        _RESERVING,
        "if not (promise.reservation.required or promise.waits_on(node.node_id)):",
        "if promise is None:",
        "nobody gets the node that the RM does not want for the ask",
        (_REFUSED,),
    ),
    Defect(
        "refused-too-early",
        _RESERVING,
        "if not (promise.reservation.required or promise.waits_on(node.node_id)):",
        "if not promise.reservation.required:",
        "the node is given up while victims are still to go from it",
        (_REFUSED,),
    ),
    Defect(
        "silence-takes-the-node",
        _REFUSALS,
        "            if reason is not NO_ANSWER:\n",
        "            if reason:\n",
        "the node is given up when the RM does not answer",
        (_REFUSED,),
    ),
    Defect(
        "promise-goes-with-its-node",
        _RESERVING,
        "if reservation.required or self.promises.find(reservation) is None:",
        "if reservation.node_id is not None:",
        "an ask that loses its node loses what was promised to it in its queues",
        (_REFUSED, _RESTING),
    ),
    Defect(
        "lost-node-for-good",
        _GROUPS,
        "return waits(place) and (reservation is None or reservation.node_id is None)",
        "return waits(place) and reservation is None",
        "an ask that has lost its node cannot have another one reserved",
        (_RESTING,),
    ),
    # What is promised to an ask that has another size
    Defect(
        "resized-promise-ends",
        "core/licorne_core/handlers/allocations.py",
        "    if promise is not None:\n        partition.reservations.take_over(promise, other)\n",
        "",
        "an ask that is given another size has nothing promised to it any more",
        (_RESIZED,),
    ),
    Defect(
        "promise-grows-with-its-ask",
        _RESERVING,
        "min(value, wanted.get(name, 0))",
        "wanted.get(name, 0)",
        "more is promised to an ask than was freed for it",
        (_RESIZED,),
    ),
    Defect(
        "promise-never-shrinks",
        _RESERVING,
        "min(value, wanted.get(name, 0))",
        "max(value, 0)",
        "what an ask does not want any more is kept for it",
        (_RESIZED,),
    ),
    # Required nodes
    Defect(
        "daemon-takes-higher",
        _REQUIRED,
        "and other.ask.priority <= request.ask.priority",
        "and other.ask.priority <= request.ask.priority + 10",
        "who is of higher priority goes for a daemon",
        (_DAEMONS,),
    ),
    Defect(
        "victims-of-a-node-go-unnoticed",
        "core/licorne_core/scheduling/wakeups.py",
        "        self._index.victims_changed(node)\n",
        "",
        "a search does not see that room is about to be there",
        ("tests/core/scheduling/test_changed_nodes.py",),
    ),
    Defect(
        "reserved-node-goes-unnoticed",
        _RESERVING,
        "        self._wakeups.node_filled(node)\n",
        "",
        "a search counts on a node that is kept for somebody else",
        ("tests/core/scheduling/test_changed_nodes.py",),
    ),
    Defect(
        "leaf-forgets-who-comes",
        "core/licorne_core/preemption/residents.py",
        "                if allocation in self._known:\n                    return\n",
        "                if self._known:\n                    return\n",
        "what was booked since the last search is no victim elsewhere",
        ("tests/core/preemption/test_kept.py",),
    ),
    Defect(
        "daemon-takes-in-vain",
        _REQUIRED,
        "return tuple(victims) if covers(collected, short) and covers(collected, beyond) else ()",
        "return tuple(victims) if covers(collected, beyond) else ()",
        "victims go for a daemon that still has no room then",
        (_DAEMONS,),
    ),
    Defect(
        "daemon-in-a-cluster-too-full",
        _REQUIRED,
        "return tuple(victims) if covers(collected, short) and covers(collected, beyond) else ()",
        "return tuple(victims) if covers(collected, short) else ()",
        "victims go for a daemon, and all nodes together still have too little",
        ("tests/core/preemption/test_required_node.py",),
    ),
    Defect(
        "daemon-takes-daemons",
        _REQUIRED,
        "            and other.ask.ask_class.required_node is None\n",
        "",
        "one daemon has another one stopped",
        (_DAEMONS,),
    ),
)
