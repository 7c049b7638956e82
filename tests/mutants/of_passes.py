"""Defects of the pass: reserved asks, ages, back-offs, checks and their order."""

from mutants.defect import Defect

_RESERVED = "core/licorne_core/scheduling/reserved.py"
_REVIEW = "core/licorne_core/scheduling/review.py"
_FOREMOST = "core/licorne_core/scheduling/foremost.py"
_GROUPS = "core/licorne_core/apps/groups.py"
_ESCALATION = "core/licorne_core/scheduling/escalation.py"
_BACK_OFF = "core/licorne_core/scheduling/back_off.py"
_CHECKS = "core/licorne_core/scheduling/checks.py"
_CYCLE = "core/licorne_core/scheduling/cycle.py"
_RANKING = "core/licorne_core/ranking.py"

_TEST_BACK_OFF = "tests/core/scheduling/test_back_off.py"
_TEST_ESCALATION = "tests/core/scheduling/test_escalation.py"
_TEST_RANKING = "tests/core/test_ranking.py"
_TEST_PREDICATES = "tests/core/scheduling/test_predicates.py"
_TEST_RESERVATIONS = "tests/core/scheduling/test_reservations.py"
_TEST_REVIEW = "tests/core/scheduling/test_review.py"
_TEST_RESERVED = "tests/core/scheduling/test_reserved.py"
_TEST_WAKEUPS = "tests/core/scheduling/test_wakeups.py"
_TEST_DECISIONS = "tests/properties/test_decisions.py::test_decides_as_the_oracle_does"

PASSES = (
    Defect(
        "first-by-former-keys",
        _RANKING,
        "if place.active and place.serial == serial:",
        "if place.active:",
        "an item whose key has become larger stays where it was",
        (_TEST_RANKING,),
    ),
    Defect(
        "alone-beside-one-aside",
        _RANKING,
        "len(self._places) == 1 and self.is_active(item)",
        "self._active == 1 and self.is_active(item)",
        "a queue counts as alone while its sibling waits",
        (_TEST_RANKING,),
    ),
    Defect(
        "shown-under-a-former-key",
        _RANKING,
        "            place.entry = None\n",
        "",
        "others are shown the key that an item had before",
        (_TEST_RANKING,),
    ),
    Defect(
        "reserved-by-former-keys",
        _FOREMOST,
        "self._rankings[queue.parent].put(queue, key)",
        "pass",
        "a reserved ask whose queue has had much goes before others",
        (_TEST_RESERVED,),
    ),
    Defect(
        "stale-and-lost",
        _FOREMOST,
        "self._new = dict(self.ready)",
        "self._new = {}",
        "reserved asks are lost when all keys are derived anew",
        (_TEST_RESERVED,),
    ),
    Defect(
        "reserved-by-former-ages",
        _RESERVED,
        "self._rankings[app.leaf].put(app, app_key(app, app.leaf))",
        "pass",
        "a reserved ask stands where its application stood before",
        (_TEST_RESERVED,),
    ),
    Defect(
        "queue-of-nobody",
        _FOREMOST,
        "            if ranking:\n                return\n            del",
        "            if ranking or member is item:\n                return\n            del",
        "a queue in which nothing is ready any more is taken for the first",
        (_TEST_RESERVED,),
    ),
    Defect(
        "asks-before-applications",
        _RESERVED,
        "return self._owners[item].request.place[:3]",
        "return (-self._owners[item].request.place[1],)",
        "of the reserved asks of an application the latest goes first",
        (_TEST_RESERVED,),
    ),
    Defect(
        "woken-and-waiting",
        _FOREMOST,
        "                self.unblock(item)\n                self.ready[item] = None",
        "                self.ready[item] = None",
        "a reserved ask that was woken still keeps its blocker",
        (_TEST_RESERVED,),
    ),
    Defect(
        "no-age-at-all",
        _GROUPS,
        "RESERVATION_AGE if group.ask_class.required_node is None else 0.0",
        "0.0",
        "nodes are reserved for asks that have just come",
        (
            _TEST_ESCALATION,
            _TEST_RESERVATIONS,
        ),
    ),
    Defect(
        "a-second-late",
        _ESCALATION,
        "deadlines.set(name, at)",
        "deadlines.set(name, at + 1)",
        "asks become old enough a second late",
        (
            _TEST_ESCALATION,
            _TEST_RESERVATIONS,
        ),
    ),
    Defect(
        "parked-under-former-key",
        _ESCALATION,
        "                self._waiting.unpark(wants)\n                ranking.put",
        "                ranking.put",
        "an ask that has become old enough waits for what another one waited for",
        (_TEST_ESCALATION,),
    ),
    Defect(
        "back-off-wakes-nobody",
        _ESCALATION,
        "self._waiting.changed(self._back_offs.pop(app))",
        "self._back_offs.pop(app)",
        "an application backs off for ever",
        (
            _TEST_ESCALATION,
            _TEST_WAKEUPS,
        ),
    ),
    Defect(
        "deadline-of-the-gone",
        _ESCALATION,
        "self._timers.cancel(Timer(Due.ESCALATE, app.app_id))",
        "self._set_timer(app)",
        "an application that is gone has a deadline",
        (_TEST_ESCALATION,),
    ),
    Defect(
        "one-stuck-too-few",
        _BACK_OFF,
        "threshold if found is not None else threshold + 1",
        "threshold",
        "an application backs off with nobody behind those that are stuck",
        (_TEST_BACK_OFF,),
    ),
    Defect(
        "back-off-for-quota",
        _BACK_OFF,
        "return tried and all(within_max(quota, items) for quota in group.app.quotas)",
        "return tried",
        "asks beyond a maximum make their application back off",
        (_TEST_BACK_OFF,),
    ),
    Defect(
        "unasked-are-stuck",
        _BACK_OFF,
        "tried = asking or group.ask_class.predicate is None",
        "tried = True",
        "asks about which nobody could be asked make their application back off",
        (_TEST_BACK_OFF,),
    ),
    Defect(
        "back-off-stops-reserved",
        _CHECKS,
        "_report_back_off, spares_reserved=True",
        "_report_back_off",
        "a reserved ask waits for the end of a back-off",
        (_TEST_BACK_OFF,),
    ),
    Defect(
        "plain-asks-wait-for-answers",
        _CHECKS,
        "if not check.only_with_predicate)",
        "if check)",
        "asks that the RM has no say in wait for its answers",
        (_TEST_PREDICATES,),
    ),
    Defect(
        "counts-as-another",
        _CHECKS,
        "not may_start(quota, app.app_id):",
        "not may_start(quota, ''):",
        "an application that is about to run keeps itself from starting",
        (
            _TEST_RESERVATIONS,
            _TEST_DECISIONS,
        ),
    ),
    Defect(
        "regular-pass-first",
        _CYCLE,
        "decision = self._among_reserved()",
        "decision = self._in_queue(self._root) or self._among_reserved()",
        "who has a node reserved comes last",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "nowhere-else",
        _CYCLE,
        "return None if reservation.required else self._index.best(ask_class)",
        "return None",
        "a reserved ask waits for its own node only",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "tired-is-through",
        _CYCLE,
        "not self.tired:\n                wakeups.waiting.end_pass()",
        "wakeups:\n                wakeups.waiting.end_pass()",
        "a turn that is cut short forgets who could be served",
        (_TEST_WAKEUPS,),
    ),
    Defect(
        "parked-inside-and-out",
        _CYCLE,
        "waiting.unpark_inside(app)",
        "pass",
        "what is inside a parked application waits for something, too",
        (_TEST_WAKEUPS,),
    ),
    # Reviews of reservations
    Defect(
        "reserved-in-vain",
        _REVIEW,
        "            if since is not None and now - since >= owner",
        "            if since is not None and now - since > 3600.0 + owner",
        "a node stays reserved for an ask that a maximum stops",
        (_TEST_REVIEW, "tests/properties/test_reserved_in_vain.py"),
    ),
    Defect(
        "reserved-in-a-full-cluster",
        _REVIEW,
        "    if _is_cluster(blocker, owner.leaf):\n",
        "    if False:\n",
        "large asks lose their nodes as soon as the cluster is full",
        (_TEST_REVIEW,),
    ),
    Defect(
        "guaranteed-asks-give-way",
        _REVIEW,
        "return not is_within_guarantee(owner.leaf, owner.request.ask.ask_class.items)",
        "return True",
        "an ask within its queue's guarantee loses its node to another one",
        (_TEST_REVIEW,),
    ),
    Defect(
        "reserved-without-end",
        "core/licorne_core/scheduling/reservation_limits.py",
        "return most is None or self.reserved(owner) < most",
        "return most is None or self.reserved(owner) <= most",
        "one node more is reserved than may be",
        (_TEST_REVIEW,),
    ),
    Defect(
        "beside-nothing",
        "core/licorne_core/nodes/node.py",
        "if kept and left - kept.get(name, 0) < value:",
        "if kept and left - kept.get(name, 0) < 0:",
        "others take what is reserved",
        (_TEST_REVIEW, _TEST_RESERVATIONS),
    ),
)
