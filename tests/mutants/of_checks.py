"""Defects of predicate checks: when they are made, written, judged and answered."""

from mutants.defect import Defect

_CHECKS = "core/licorne_core/scheduling/predicate_checks.py"
_PREDICATES = "core/licorne_core/handlers/predicates.py"
_OUTSTANDING = "core/licorne_core/outstanding.py"
_CANDIDATES = "core/licorne_core/scheduling/candidates.py"
_CONVERT = "server/licorne_server/convert_checks.py"
_ASKS = "server/licorne_server/convert_asks.py"
_CONVERSATION = "server/licorne_server/services/conversation.py"
_OUTBOX = "server/licorne_server/outbox.py"
_RUNNERS = "clients/python/licorne/check_runner.py"

_TEST_PREDICATES = "tests/core/scheduling/test_predicates.py"
_TEST_RESULTS = "tests/core/scheduling/test_predicate_results.py"
_TEST_OUTSTANDING = "tests/core/scheduling/test_outstanding.py"
_TEST_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
_TEST_DECISIONS = "tests/properties/test_decisions.py::test_decides_as_the_oracle_does"
_TEST_CONVERT = "tests/server/test_convert_checks.py"
_TEST_CLASSES = "tests/server/test_convert_callbacks.py"
_TEST_READ_AHEAD = "tests/server/test_read_ahead.py"
_TEST_TIME = "tests/server/test_time_of_checks.py"
_TEST_OUTBOX = "tests/server/test_outbox.py"
_TEST_LISTS = "tests/client/test_checks_in_lists.py"

CHECKS = (
    Defect(
        "accepted-anywhere",
        _PREDICATES,
        "return check.stands(node) and (node is check.first or node.assumed == 1)",
        "return check.stands(node)",
        "an ask is placed beside others that the RM had not in mind when it accepted",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "accepted-on-the-first-alone",
        _PREDICATES,
        "return check.stands(node) and (node is check.first or node.assumed == 1)",
        "return check.stands(node) and node is check.first",
        "whoever is alone on a further node of a check is asked about again",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "accepted-alone-only",
        _PREDICATES,
        "return check.stands(node) and (node is check.first or node.assumed == 1)",
        "return check.stands(node) and node.assumed == 1",
        "the confirmation of one ask voids the answers about the others on the node",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "one-check-for-all",
        _CHECKS,
        "if node.assumed or check.is_orphaned:",
        "if check.is_orphaned:",
        "the RM judges a second ask on a node as if the first was not there",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "answer-about-what-is-gone",
        _PREDICATES,
        "    if not check.is_orphaned:\n        for node in partition.results.keep",
        "    if check:\n        for node in partition.results.keep",
        "an ask is kept off a node because another one, which is gone, was refused there",
        (_TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "unknown-beside-the-first",
        _PREDICATES,
        "        if node is not check.first:\n            partition.allocations.note_unknown(node)",
        "        if False:\n            partition.allocations.note_unknown(node)",
        "the RM's answers count on a node where it does not know of an allocation",
        (_TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "unknown-by-silence",
        _PREDICATES,
        "    for node in settled.confirmed:\n        # The RM has not judged",
        "    for node in ():\n        # The RM has not judged",
        "the RM's answers count on a node where its silence has placed an ask",
        (_TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "known-while-assumed",
        _CHECKS,
        "return (allocate and node.assumed > 0) or (ask_class, allocate) not in node.results",
        "return (ask_class, allocate) not in node.results",
        "an ask is placed by an older result though another is assumed on the node meanwhile",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_DECISIONS),
    ),
    Defect(
        "asked-in-vain",
        _CHECKS,
        "return waiting if last is None else min(waiting, ALWAYS + TIMES_THE_LAST * last)",
        "return waiting",
        "the RM is asked about ever more nodes whose answers are void before they are of use",
        (_TEST_RESULTS,),
    ),
    Defect(
        "asked-about-ever-less",
        _CHECKS,
        "self._spared[ask_class] = spared + 1",
        "self._spared[ask_class] = spared",
        "a class that had others beside it once has a check for nearly every ask for ever",
        (_TEST_RESULTS,),
    ),
    Defect(
        "silence-is-refusal",
        _PREDICATES,
        "request.group.refusals += reason is not NO_ANSWER",
        "request.group.refusals += 1",
        "a silent RM is asked about ever more nodes at a time",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_SCENARIO, _TEST_DECISIONS),
    ),
    Defect(
        "silence-is-a-reason",
        _CANDIDATES,
        "if reason and reason is not NO_ANSWER)",
        "if reason)",
        "users are told that the RM refused what it did not answer",
        (_TEST_PREDICATES, _TEST_RESULTS, _TEST_SCENARIO),
    ),
    Defect(
        "silence-wants-nodes",
        _OUTSTANDING,
        "        and not results.is_silent_about(group.ask_class)\n",
        "",
        "an autoscaler adds nodes because the RM did not answer",
        (_TEST_OUTSTANDING, _TEST_SCENARIO),
    ),
    Defect(
        "waiting-wants-nodes",
        _OUTSTANDING,
        "        and group.nowhere\n",
        "",
        "an autoscaler adds nodes for asks that wait for their turn",
        (_TEST_OUTSTANDING, _TEST_SCENARIO),
    ),
    Defect(
        "reported-without-an-end",
        _OUTSTANDING,
        "    while heap and looks > 0 and group.reported < found.asks:\n",
        "    while heap and group.reported < found.asks:\n",
        "all asks of a size are reported in one turn, however many there are",
        (_TEST_OUTSTANDING,),
    ),
    Defect(
        "time-begins-too-early",
        _CONVERSATION,
        "                await self._send(sealer, batch.kind, batch.data, number)\n",
        "                self._note_sent(batch.last_check)\n"
        "                await self._send(sealer, batch.kind, batch.data, number)\n",
        "the time for an answer runs while the check is being written",
        (_TEST_READ_AHEAD,),
    ),
    Defect(
        "time-never-begins",
        _CONVERSATION,
        "self._note_sent(batch.last_check)",
        "pass",
        "an RM that does not answer blocks its asks for ever",
        (_TEST_TIME,),
    ),
    Defect(
        "lost-for-ever",
        _CONVERSATION,
        "self._note_sent(sent.last_check)",
        "pass",
        "a check whose stream broke while it was written has no deadline",
        (_TEST_READ_AHEAD,),
    ),
    Defect(
        "answers-without-number",
        _CONVERSATION,
        "await self._answer(ANSWERS[message], payload)\n"
        "            self._intake.put(Entry(Kind.SESSION, number))",
        "await self._answer(ANSWERS[message], payload)\n"
        "            self._intake.put(Entry(Kind.SESSION, 0))",
        "answers are not acknowledged",
        ("tests/server/test_callbacks.py",),
    ),
    Defect(
        "checks-in-between",
        _OUTBOX,
        "(kind for kind in kinds if _LANES[kind] is not Kind.CHECKS)",
        "(_LANES[kind] for kind in kinds)",
        "the RM judges checks before it hears what was decided before",
        (_TEST_OUTBOX,),
    ),
    Defect(
        "checks-overtaken",
        _OUTBOX,
        "{kind: Kind.CHECKS if kind is Kind.VICTIMS else kind for kind in Kind}",
        "{kind: kind for kind in Kind}",
        "the time for a check begins before it is written, as one of the other kind left first",
        (_TEST_OUTBOX, "tests/server/test_victims_over_a_session.py"),
    ),
    Defect(
        "megabytes-of-victims",
        "server/licorne_server/convert_victims.py",
        "        if room <= 0:\n            break\n",
        "",
        "a check about many victims is larger than a client takes",
        ("tests/server/test_convert_victims.py",),
    ),
    Defect(
        "explained-in-one-piece",
        "core/licorne_core/explain.py",
        "        if refusal is not None:\n"
        "            causes[refusal] += 1\n"
        "        if not number % STEP:\n"
        "            yield\n",
        "        if refusal is not None:\n            causes[refusal] += 1\n    yield\n",
        "an explanation asks 100,000 nodes in one piece",
        ("tests/server/test_pieces.py",),
    ),
    Defect(
        "seen-before-it-is-there",
        "core/licorne_core/views/nodes.py",
        "len(node.allocations) - node.assumed - node.linked,",
        "len(node.allocations) - node.assumed,",
        "a node counts an allocation that the RM does not know of",
        ("tests/core/views/test_gangs.py",),
    ),
    Defect(
        "first-of-the-joined",
        _OUTBOX,
        "order, last_check = position, payload.last_check",
        "order = position",
        "the time of joined checks never begins",
        (_TEST_OUTBOX,),
    ),
    Defect(
        "megabytes-of-checks",
        _CONVERT,
        "full = len(parts) == MAX_RESPONSE_ITEMS or size + len(part) > MAX_RESPONSE_BYTES",
        "full = len(parts) == MAX_RESPONSE_ITEMS",
        "checks about many nodes are larger than a client takes",
        (_TEST_CONVERT,),
    ),
    Defect(
        "deadline-rounded-down",
        _CONVERT,
        "round(asked.deadline * 1000)",
        "int(asked.deadline * 1000 - 0.5)",
        "the RM is told a millisecond less than it has",
        (_TEST_CONVERT,),
    ),
    Defect(
        "short-way-for-all",
        _CONVERT,
        "if item.end == len(raw):",
        "if item.end:",
        "refusals are taken for acceptances",
        (_TEST_CONVERT,),
    ),
    Defect(
        "answers-without-end",
        _CONVERT,
        "if count > MAX_ANSWERS:",
        "if count > 10 * MAX_ANSWERS:",
        "a message with millions of answers keeps everybody waiting",
        (_TEST_CONVERT,),
    ),
    Defect(
        "no-tag-is-no-class",
        _ASKS,
        "if opinion is None and self._class_by == sp.BY_ASK:",
        "if opinion is None:",
        "asks without the tag share nothing though the RM says that they do",
        (_TEST_CLASSES,),
    ),
    Defect(
        "no-tag-is-a-class",
        _ASKS,
        "if opinion is None and self._class_by == sp.BY_ASK:",
        "if opinion is None and self._class_by == sp.BY_ALL_TAGS:",
        "asks of which nothing is known share results",
        (_TEST_CLASSES,),
    ),
    Defect(
        "own-tags-as-written",
        _ASKS,
        "if name.lower() not in OWN_TAGS",
        "if name not in OWN_TAGS",
        "every pod is a class of its own, as its tags have capitals",
        (_TEST_CLASSES,),
    ),
    Defect(
        "tags-in-their-order",
        _ASKS,
        "known = sorted((name, value)",
        "known = list((name, value)",
        "equal tags in another order are another class",
        (_TEST_CLASSES,),
    ),
    Defect(
        "values-do-not-count",
        _ASKS,
        "known = sorted((name, value) for",
        "known = sorted((name, value and 1) for",
        "asks for different zones share results",
        (_TEST_CLASSES,),
    ),
    Defect(
        "behind-the-slow-one",
        _RUNNERS,
        "self._loop.call_later(HAND_OVER_SECONDS, self._take_late)",
        "pass",
        "what is judged waits for the slowest check of its list",
        (_TEST_LISTS,),
    ),
    Defect(
        "judged-in-vain",
        _RUNNERS,
        "            if self._given_up:\n                return\n",
        "",
        "the function goes on with checks whose time is over",
        (_TEST_LISTS,),
    ),
    Defect(
        "class-by-not-said",
        "clients/python/licorne/callbacks.py",
        "wire.predicates.class_by = _CLASSES[self.class_by]",
        "wire.predicates.class_by = pb.BY_ASK",
        "the server is not told which asks share results",
        ("tests/client/test_callbacks.py",),
    ),
)
