"""Defects of gangs: admission, replacement, pairs, numbers, and the time of placeholders."""

from mutants.defect import Defect

_ALLOCATING = "core/licorne_core/allocating.py"
_ALLOCATIONS = "core/licorne_core/handlers/allocations.py"
_BOOKS = "core/licorne_core/books.py"
_ENDING = "core/licorne_core/handlers/ending.py"
_GANG = "core/licorne_core/apps/gang.py"
_GANGS = "core/licorne_core/handlers/gangs.py"
_LIFECYCLE = "core/licorne_core/lifecycle.py"
_PAIRS = "core/licorne_core/pairs.py"
_PLACEHOLDERS = "core/licorne_core/placeholders.py"
_REPLACING = "core/licorne_core/scheduling/replacing.py"
_RULES = "core/licorne_core/apps/gang_rules.py"
_WAKEUPS = "core/licorne_core/scheduling/wakeups.py"

_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
_GANG_SCENE = _SCENARIO + "[gang]"
_NODES = _SCENARIO + "[gang_nodes]"
_PREEMPTION = _SCENARIO + "[gang_preemption]"
_RECOVERY = _SCENARIO + "[recovery_of_gangs]"
_TIMEOUTS = _SCENARIO + "[gang_timeouts]"
_CORNERS = _SCENARIO + "[gang_corners]"
_GANG_TESTS = "tests/core/test_gangs.py::"
_CANCELLED = "tests/core/test_cancelled_placeholders.py"
_TAGS = "tests/core/test_scheduler_namespace_tags.py"

GANGS = (
    Defect(
        "gang-fits-in-the-leaf",
        _GANGS,
        "for queue in leaf.lineage[1:-1]:",
        "for queue in leaf.lineage[1:1]:",
        "a gang is accepted that a queue above its own could never hold",
        (_CORNERS,),
    ),
    Defect(
        "gang-in-any-order",
        _GANGS,
        "if leaf.settings.app_sort not in _FIRST_COMES_FIRST:",
        "if leaf.settings.app_sort not in AppSortPolicy:",
        "a gang is accepted where shares decide who comes first",
        (_GANG_SCENE,),
    ),
    Defect(
        "forced-gang-is-checked",
        "core/licorne_core/handlers/apps.py",
        "if gang.is_wanted and not is_forced(placed):",
        "if gang.is_wanted:",
        "a gang that runs already is refused after a restart",
        (_RECOVERY,),
    ),
    Defect(
        "quota-of-yesterday",
        "core/licorne_core/handlers/apps.py",
        "leaf_max = leaf.max if brought is None else max_with(leaf, brought)",
        "leaf_max = leaf.max",
        "a gang is measured against the quota that others brought, and the first against none",
        (_TAGS,),
    ),
    Defect(
        "queues-of-refused-gangs",
        "core/licorne_core/handlers/apps.py",
        "            tree.take_back(created)\n",
        "",
        "a queue stays for ever that was created for a gang that was refused",
        (_TAGS,),
    ),
    Defect(
        "timeout-in-full",
        _GANG,
        "timeout -= max(0.0, now - int(created))",
        "timeout -= 0.0",
        "the time that an application has spent already is not taken off",
        (_TIMEOUTS,),
    ),
    Defect(
        "hard-is-soft",
        _GANG,
        'return cls.HARD if text.strip().lower() == "hard" else cls.SOFT',
        'return cls.HARD if text.strip() == "hard" else cls.SOFT',
        "a gang that says Hard runs on without its placeholders",
        (_TIMEOUTS,),
    ),
    Defect(
        "no-more-than-open",
        _GANG,
        "return self.count - self.replaced - self.timed_out",
        "return self.count - self.replaced",
        "real asks wait for placeholders that have timed out",
        (_TIMEOUTS, _GANG_SCENE),
    ),
    Defect(
        "last-come-first-replaced",
        _GANG,
        "insort(self.group_of(placeholder.ask).free, placeholder, key=_arrival)",
        "self.group_of(placeholder.ask).free.insert(0, placeholder)",
        "the placeholder that came last is replaced first",
        (_GANG_SCENE,),
    ),
    Defect(
        "complete-without-shared-types",
        _GANG,
        "return bool(shared) and all(",
        "return all(",
        "an application without placeholders is taken for a gang that has come together",
        (_CORNERS,),
    ),
    Defect(
        "complete-with-more",
        _GANG,
        "wanted[name] == kept[name] for name in shared",
        "wanted[name] <= 2 * kept[name] for name in shared",
        "an application runs when half of its gang has come together",
        (_TIMEOUTS,),
    ),
    Defect(
        "placeholder-counts-in-the-share",
        _BOOKS,
        "totals = app.placeholder_allocated if placeholder else app.allocated\n    for",
        "totals = app.allocated\n    for",
        "placeholders count in what their application has",
        (_GANG_SCENE,),
    ),
    Defect(
        "linked-counts-at-once",
        _PAIRS,
        "        if elsewhere:\n            self._enter_node(",
        "        if True:\n            self._enter_node(",
        "a replacement takes room beside its placeholder on the same node",
        (_GANG_SCENE,),
    ),
    Defect(
        "larger-replaces",
        _REPLACING,
        "return all(room.get(name, 0) >= value for name, value in wanted.items)",
        "return any(room.get(name, 0) >= value for name, value in wanted.items)",
        "a real ask that is larger in one type takes the place of a placeholder",
        (_CORNERS,),
    ),
    Defect(
        "cancels-only-much-too-small",
        _REPLACING,
        "if not is_covered(ask_class, placeholder.ask.ask_class):",
        "if not is_covered(placeholder.ask.ask_class, ask_class):",
        "a placeholder is cancelled for a smaller ask, and a larger one replaces it",
        (_GANG_SCENE,),
    ),
    Defect(
        "cancelled-before-its-end",
        _PAIRS,
        "self._placeholders.cancel(app, placeholder)",
        "self._placeholders.give_up(app, placeholder)",
        "a real ask runs beside the placeholders that were too small for it",
        (_CANCELLED,),
    ),
    Defect(
        "cancelled-for-ever",
        _GANGS,
        "    partition.pairs.end_cancelled(app)\n    rule =",
        "    rule =",
        "a real ask waits for ever for an RM that never confirms a cancelled placeholder",
        (_CANCELLED,),
    ),
    Defect(
        "replaces-where-it-may-not-run",
        _REPLACING,
        "if ask_class.required_node is not None:",
        "if False:",
        "an ask that requires another node takes the placeholder's",
        ("tests/core/test_museum.py::test_a_placeholder_replaced_on_another_node_counts_once",),
    ),
    Defect(
        "regular-pass-takes-replaceable",
        _GANG,
        "return group if group is not None and group.open else None",
        "return group if group is not None and group.free else None",
        "a real ask takes new room while a placeholder of its group still waits for a node",
        (_CORNERS,),
    ),
    Defect(
        "nobody-hears-of-the-last",
        _WAKEUPS,
        "blocker = self.gang_waits.find(task_group)",
        "blocker = self.gang_waits.find(task_group) if task_group.open else None",
        "real asks wait for ever when the last placeholder is gone",
        (_CORNERS, _GANG_SCENE),
    ),
    Defect(
        "kept-and-not-replaced",
        _PLACEHOLDERS,
        "        self._wakeups.replacing.wake((app,))\n",
        "",
        "a real ask that was there before the placeholder does not replace it",
        ("tests/core/test_gangs.py::test_a_placeholder_that_the_rm_agrees_to_is_replaced_at_once",),
    ),
    Defect(
        "told-and-still-free",
        _PLACEHOLDERS,
        "        app.gang.take(placeholder)\n        self.time_out(",
        "        self.time_out(",
        "a placeholder that was told to stop is replaced",
        (_PREEMPTION, _TIMEOUTS),
    ),
    Defect(
        "counts-again-when-asked-back",
        _PLACEHOLDERS,
        "if event is RequestEvent.ASK_BACK:",
        "if event is RequestEvent.CONFIRM:",
        "a placeholder that the RM could not run counts as timed out and waits again",
        (_CORNERS,),
    ),
    Defect(
        "timer-starts-over",
        _LIFECYCLE,
        "        if timer not in partition.timers:\n"
        "            partition.timers.set(timer, now + app.gang.timeout)",
        "        partition.timers.set(timer, now + app.gang.timeout)",
        "each placeholder that comes gives all of them more time",
        (_CORNERS,),
    ),
    Defect(
        "timer-of-no-placeholder",
        _LIFECYCLE,
        "if not (app.placeholder_count or app.gang.is_open):",
        "if not app.arrivals:",
        "the time goes on when no placeholder is left, and is up too early for the next ones",
        (_CORNERS,),
    ),
    Defect(
        "no-time-for-those-that-wait",
        _LIFECYCLE,
        "not (app.placeholder_count or app.gang.is_open)",
        "not app.placeholder_count",
        "placeholders that keep no room yet wait without an end once the others are replaced",
        (_GANG_TESTS + "test_placeholders_that_wait_time_out_when_the_others_are_replaced",),
    ),
    Defect(
        "timeout-drops-real-asks",
        _GANGS,
        "if rule.drops_asks or (place.request.is_pending and place.request.ask.placeholder)",
        "if rule.drops_asks or place.request.is_pending",
        "an application that runs loses its real asks when time is up",
        (_RECOVERY, _CORNERS),
    ),
    Defect(
        "timeout-keeps-replacements",
        _GANGS,
        "    dropped = [\n        place.request\n        for place in app.asks_in_order()\n"
        "        if rule.drops_asks or",
        "    dropped = [\n        place.request\n        for place in app.asks_in_order()\n"
        "        if (rule.drops_asks and place.request.is_pending) or",
        "a replacement goes on in a gang that has not come together in time",
        (_TIMEOUTS,),
    ),
    Defect(
        "timeout-in-one-go",
        _GANGS,
        "part.take(end.rest)",
        "list(end.rest)",
        "all placeholders of a gang are stopped in one act",
        (_GANG_TESTS + "test_a_timeout_of_many_placeholders_is_sliced",),
    ),
    Defect(
        "decides-in-the-middle",
        "core/licorne_core/partition.py",
        "not self.holds and self.stopping.end is None",
        "not self.holds",
        "placeholders that are about to be stopped are replaced",
        (_GANG_TESTS + "test_nothing_is_decided_in_the_middle_of_a_timeout",),
    ),
    Defect(
        "completes-in-the-middle",
        _GANGS,
        "app.leaf is not None and app.state is end.state and not app.placeholder_count",
        "app.leaf is not None and not app.placeholder_count",
        "a gang that runs on completes, as its asks are dropped after its last placeholder went",
        (_GANG_TESTS + "test_a_soft_gang_runs_on_though_its_last_placeholder_went_in_the_middle",),
    ),
    Defect(
        "soft-fails",
        _RULES,
        "(AppState.ACCEPTED, GangStyle.SOFT): Timeout(AppEvent.RESUME, drops_asks=True)",
        "(AppState.ACCEPTED, GangStyle.SOFT): Timeout(AppEvent.FAIL, drops_asks=True)",
        "an application with a soft gang fails",
        (_TIMEOUTS,),
    ),
    Defect(
        "resumes-never",
        _RULES,
        "    (_A.RESUMING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.RUN,\n",
        "",
        "an application whose gang was given up never runs",
        (_TIMEOUTS,),
    ),
    Defect(
        "completes-with-placeholders",
        _GANGS,
        "    if not app.placeholder_count:\n        outcome.updates += advance(",
        "    if app.placeholder_count:\n        outcome.updates += advance(",
        "an application is completed while its placeholders keep room",
        (_TIMEOUTS,),
    ),
    Defect(
        "stops-those-that-were-told",
        _GANGS,
        "for request in app.booked() if request.state is RequestState.PLACEHOLDER]",
        "for request in app.booked() if request.ask.placeholder]",
        "placeholders that were told to stop are told again when time is up",
        (_TIMEOUTS,),
    ),
    Defect(
        "heir-of-a-lost-node",
        _ENDING,
        "return own is None or (kept is not None and own.node_id == kept.node_id)",
        "return own is not None and kept is not None and own.node_id == kept.node_id",
        "a real allocation is made on a node that has just gone with its placeholder",
        (_NODES,),
    ),
    Defect(
        "swap-asks-for-leave",
        _RULES,
        "(_R.RELEASING, _R.LINKED, _P.ENDED): PairStep(_E.CONFIRM, None, Count.REPLACED)",
        "(_R.RELEASING, _R.LINKED, _P.ENDED): PairStep(_E.ROLL_BACK, None, Count.REPLACED)",
        "the real ask waits again when its placeholder is gone",
        (_GANG_SCENE, _NODES),
    ),
    Defect(
        "lost-node-keeps-its-pair",
        _RULES,
        "(_R.RELEASING, _R.LINKED, _P.NODE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT)",
        "(_R.RELEASING, _R.LINKED, _P.NODE_LOST): PairStep(_E.ROLL_BACK, None, Count.OPEN)",
        "a placeholder that ends alone counts as one that can be replaced",
        (_NODES,),
    ),
    Defect(
        "replacement-is-acknowledged",
        _ALLOCATIONS,
        "request.ask.placeholder and termination is TerminationType.PLACEHOLDER_REPLACED",
        "request.ask.placeholder and termination is TerminationType.SCHEDULING_FAILED_ON_RM",
        "the RM is told back what it confirms",
        (_GANG_SCENE,),
    ),
    Defect(
        "age-of-the-real-ask",
        _ALLOCATING,
        "asked = kept.request_time",
        "asked = request.create_time",
        "a replacement counts from its own ask, not from the placeholder's",
        ("tests/core/test_gangs.py::test_a_replacement_counts_from_its_placeholder",),
    ),
    Defect(
        "smaller-one-keeps-the-rest",
        _ALLOCATING,
        "if node is place and request.ask.ask_class.items == kept.ask.ask_class.items:",
        "if node is place:",
        "what a placeholder kept and its smaller replacement does not take stays booked",
        (_CORNERS,),
    ),
    Defect(
        "refusals-outlive-a-placeholder",
        _ALLOCATING,
        "            if note_known_change(node, narrowed=True):\n"
        "                self._wakeups.node_improved(node)",
        "            if note_known_change(node, narrowed=True):\n                pass",
        "nobody asks about a node again that the RM had refused before a placeholder was replaced",
        ("tests/core/test_gangs.py::test_a_replacement_on_its_node_voids_the_refusals_there",),
    ),
    Defect(
        "replacement-is-no-victim",
        _ALLOCATING,
        "            else:\n                self._wakeups.victims_changed(node)",
        "            else:\n                pass",
        "a daemon does not hear of the allocation that it may preempt on its node",
        ("tests/core/test_gangs.py::test_a_replacement_on_its_node_makes_way_for_a_daemon",),
    ),
    Defect(
        "victim-is-replaced",
        _ALLOCATING,
        "        if request.ask.placeholder:\n"
        "            self._placeholders.give_up(app, request)\n"
        "        request.follow(RequestEvent.PREEMPT)",
        "        request.follow(RequestEvent.PREEMPT)",
        "a placeholder that is a victim is replaced at the same time",
        (_PREEMPTION,),
    ),
)
