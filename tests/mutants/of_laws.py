"""Defects of the laws of preemption, and of who goes first."""

from mutants.defect import Defect

_CALLS = "core/licorne_core/handlers/preemption.py"
_LAWS = "core/licorne_core/preemption/laws.py"
_LOSSES = "core/licorne_core/preemption/losses.py"
_RANKS = "core/licorne_core/preemption/ranks.py"
_VICTIMS = "core/licorne_core/preemption/victims.py"
_WHATIF = "core/licorne_core/preemption/whatif.py"
_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
_SHARES = _SCENARIO + "[preemption]"
_CHOICE = _SCENARIO + "[preemption_choice]"
_CORNERS = _SCENARIO + "[preemption_corners]"
_COST = _SCENARIO + "[preemption_cost]"
_FENCES = _SCENARIO + "[preemption_fences]"
_POLICIES = _SCENARIO + "[preemption_policies]"
_PRIORITIES = _SCENARIO + "[preemption_priorities]"
_RESTRAINT = _SCENARIO + "[preemption_restraint]"
_AT_GUARANTEE = (
    "tests/core/preemption/test_scenarios.py::test_exactly_at_its_guarantee_a_queue_gives_nothing"
)

LAWS = (
    # Laws
    Defect(
        "one-above-its-guarantee",
        _LAWS,
        "if due and settled(entitled, name) + value > due:",
        "if due and settled(entitled, name) + value > due + 1:",
        "a queue takes one more than it is guaranteed",
        (_SHARES, _POLICIES),
    ),
    Defect(
        "guarantee-without-the-ask",
        _LAWS,
        "if due and settled(entitled, name) + value > due:",
        "if due and settled(entitled, name) > due:",
        "a queue that has just what it is guaranteed takes more",
        (_SHARES, _POLICIES),
    ),
    Defect(
        "gives-at-its-guarantee",
        _LAWS,
        "if rests and min(rests) > 0:",
        "if rests and min(rests) >= 0:",
        "a queue that has just what it is guaranteed is asked to give",
        (_AT_GUARANTEE,),
    ),
    Defect(
        "gives-below-its-guarantee",
        _WHATIF,
        "        for allowance, name, amount in charges:\n"
        "            if allowance[name] < amount:\n"
        "                return False\n",
        "",
        "a queue loses more than it has above its guarantee",
        (_CORNERS, _POLICIES),
    ),
    Defect(
        "what-is-going-counts",
        _LAWS,
        "queue.allocated.get(name, 0) - queue.preempting.get(name, 0) +",
        "queue.allocated.get(name, 0) +",
        "what a queue is about to lose counts as its own",
        (_CORNERS,),
    ),
    Defect(
        "promises-do-not-count",
        _LAWS,
        "- queue.preempting.get(name, 0) + queue.promised.get(name, 0)",
        "- queue.preempting.get(name, 0)",
        "a queue takes as much for each of its asks as it may take for all",
        (_CORNERS,),
    ),
    Defect(
        "guarantee-of-root-only",
        _LAWS,
        "if queue.guaranteed is not None and any(guaranteed(queue, name) for name, _ in wanted):",
        "if queue.guaranteed is not None:",
        "the guarantee of another type stands for the ask's",
        (_CORNERS,),
    ),
    Defect(
        "priority-without-offsets",
        _LAWS,
        "        priority = queue.counts_as(priority)\n    return Fence",
        "    return Fence",
        "what makes a queue more important makes it less so",
        (_PRIORITIES,),
    ),
    Defect(
        "common-ancestor-on-one-side",
        _LAWS,
        "        priorities[queue] = priority\n",
        "        priorities[queue] = queue.counts_as(priority)\n",
        "the offset of a queue that both are in raises the ask alone",
        ("tests/core/preemption/test_priorities.py",),
    ),
    Defect(
        "offset-of-the-victim",
        _LAWS,
        "        priority -= settings.priority_offset",
        "        priority += settings.priority_offset",
        "a queue with a high offset loses to everybody",
        (_CORNERS,),
    ),
    Defect(
        "higher-priority-goes",
        _VICTIMS,
        "if giver.priority is not None and ask.priority > giver.priority:",
        "if giver.priority is not None and ask.priority > giver.priority + 1:",
        "who is of higher priority has to go",
        (_CHOICE,),
    ),
    Defect(
        "equal-priority-stays",
        _VICTIMS,
        "if giver.priority is not None and ask.priority > giver.priority:",
        "if giver.priority is not None and ask.priority >= giver.priority:",
        "who is of equal priority is spared",
        (_SHARES,),
    ),
    Defect(
        "inside-a-fence-like-outside",
        _LAWS,
        "if settings.preemption is PreemptionPolicy.FENCE or exceeds_max(queue, wanted):",
        "if exceeds_max(queue, wanted):",
        "who is inside a fence takes victims outside it",
        (_FENCES,),
    ),
    Defect(
        "outside-a-full-queue",
        _LAWS,
        "if settings.preemption is PreemptionPolicy.FENCE or exceeds_max(queue, wanted):",
        "if settings.preemption is PreemptionPolicy.FENCE:",
        "victims outside a full queue go for an ask inside, which has no use of them",
        (_CORNERS,),
    ),
    Defect(
        "disabled-loses",
        _VICTIMS,
        "        if leaf.settings.preemption is PreemptionPolicy.DISABLED:\n"
        "            return Out.DISABLED_POLICY\n",
        "",
        "an interactive queue loses what it runs",
        (_POLICIES,),
    ),
    Defect(
        "other-types-go",
        _VICTIMS,
        "if max([sizes.get(name, 0) for name in self.names]) <= 0:",
        "if max([sizes.get(name, 0) for name in self.names]) < 0:",
        "who has nothing of what is wanted is a victim",
        ("tests/core/preemption/test_search.py", "tests/core/preemption/test_scenarios.py"),
    ),
    Defect(
        "bound-to-a-node-and-goes",
        _VICTIMS,
        "        if ask_class.required_node is not None:\n            return Out.REQUIRED_NODE\n",
        "",
        "who may run nowhere else has to go",
        (_CORNERS,),
    ),
    # Who goes first
    Defect(
        "oldest-goes-first",
        _RANKS,
        "return (kind_of(request), -request.create_time, ask.app_id, ask.key)",
        "return (kind_of(request), request.create_time, ask.app_id, ask.key)",
        "the one that has run longest goes first",
        (_CHOICE,),
    ),
    Defect(
        "opting-out-is-for-nothing",
        _RANKS,
        "return (0 if ask.allow_preempt_self else OPTED_OUT) +",
        "return",
        "who does not want to be preempted goes like all others",
        (_CHOICE,),
    ),
    Defect(
        "originator-goes",
        _RANKS,
        "(ORIGINATOR if ask.originator else 0)",
        "(0 if ask.originator else ORIGINATOR)",
        "who started an application goes before its other tasks",
        (_CHOICE,),
    ),
    Defect(
        "cost-of-no-time",
        _RANKS,
        "cost_of(ask.tags) * run, youth",
        "cost_of(ask.tags), youth",
        "the time that was run costs nothing",
        (_COST,),
    ),
    Defect(
        "cost-before-priority",
        _RANKS,
        "return (kind, ask.priority, cost_of",
        "return (kind, 0, cost_of",
        "a cheap victim of high priority goes before a dear one of low priority",
        (_COST,),
    ),
    Defect(
        "recovered-is-young",
        _RANKS,
        "return now - (request.create_time if brought else allocation.allocation_time)",
        "return now - allocation.allocation_time",
        "what an RM brought along has run for no time",
        (_COST, _RESTRAINT),
    ),
    Defect(
        "minimum-runtime-and-a-bit",
        _VICTIMS,
        "if run < minimum:",
        "if run < minimum / 2:",
        "who has just started goes",
        (_RESTRAINT,),
    ),
    Defect(
        "losses-are-forgotten",
        _CALLS,
        "    partition.losses.add(leaf.path, lost, now)\n",
        "",
        "a queue may lose any amount of work in an hour",
        (_RESTRAINT,),
    ),
    Defect(
        "losses-for-ever",
        _LOSSES,
        "while order and order[0][0] + WINDOW <= now:",
        "while order and order[0][0] + 2 * WINDOW <= now:",
        "what was lost long ago still spares a queue",
        (_RESTRAINT,),
    ),
)
