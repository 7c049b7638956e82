"""Defects of who waits for what, and of the nodes that they wait for."""

from mutants.defect import Defect

_WAITING = "core/licorne_core/scheduling/waiting.py"
_BLOCKERS = "core/licorne_core/scheduling/blockers.py"
_SHELF = "core/licorne_core/scheduling/shelf.py"
_FITTING = "core/licorne_core/scheduling/fitting.py"
_SUPPLY = "core/licorne_core/scheduling/supply.py"
_CANDIDATES = "core/licorne_core/scheduling/candidates.py"
_SORTING = "core/licorne_core/nodes/sorting.py"
_TURN = "core/licorne_core/handlers/turn.py"
_HEAPS = "core/licorne_core/scheduling/heaps.py"

_TEST_SORTING = "tests/core/nodes/test_sorting.py"
_TEST_CANDIDATES = "tests/core/scheduling/test_candidates.py"
_TEST_FITTING = "tests/core/scheduling/test_fitting.py"
_TEST_HEAPS = "tests/core/scheduling/test_heaps.py"
_TEST_RESERVED = "tests/core/scheduling/test_reserved.py"
_TEST_SHELF = "tests/core/scheduling/test_shelf.py"
_TEST_SUPPLY = "tests/core/scheduling/test_supply.py"
_TEST_WAITING = "tests/core/scheduling/test_waiting.py"
_TEST_WAKEUPS = "tests/core/scheduling/test_wakeups.py"

WAITING = (
    Defect(
        "shut-blocker-passes",
        _WAITING,
        "if blocker.lets_through():",
        "if blocker.shelves:",
        "an open blocker lets all through though it has room for one",
        (_TEST_WAITING,),
    ),
    Defect(
        "path-stays-aside",
        _WAITING,
        "ranking.activate(member)",
        "ranking.activate(item)",
        "what leads to somebody who is woken is not looked at",
        (_TEST_WAITING,),
    ),
    Defect(
        "parked-twice",
        _WAITING,
        "        if item.blocker is not None:\n            self.unpark(item)\n",
        "        if item.blocker is not None:\n            pass\n",
        "who is parked again is still on the shelves of his former blocker",
        (_TEST_WAITING,),
    ),
    Defect(
        "shelves-below-root",
        _WAITING,
        "            if not is_new:\n                break",
        "            if is_new:\n                break",
        "a blocker does not know the way from root to whom it blocks",
        (_TEST_WAITING,),
    ),
    Defect(
        "reserved-sleep-on",
        _WAITING,
        "foremost.wake((item,))",
        "foremost.wake(())",
        "a blocker that has changed wakes no reserved ask",
        (
            _TEST_WAITING,
            _TEST_WAKEUPS,
        ),
    ),
    Defect(
        "former-keys",
        _WAITING,
        "ranking.forgotten + len(ranking.improved))",
        "0)",
        "who has come earlier in the order since a blocker opened is overtaken",
        (_TEST_WAITING,),
    ),
    Defect(
        "former-openings",
        _WAITING,
        "stamp = (self._openings, ",
        "stamp = (0, ",
        "who waits for a blocker that opens during a pass is overtaken",
        (_TEST_WAITING,),
    ),
    Defect(
        "past-the-active",
        _WAITING,
        "limit < entry:",
        "entry < limit:",
        "those who wait are looked at before those who are active",
        (_TEST_WAITING,),
    ),
    Defect(
        "heads-past-the-active",
        _WAITING,
        "limit < head.entry:",
        "head.entry < limit:",
        "the first of those who wait for a blocker is looked at before those who are active",
        (_TEST_WAITING,),
    ),
    Defect(
        "waits-and-reserves",
        _BLOCKERS,
        "return not (self.shelves or self.foremost)",
        "return not self.shelves",
        "a blocker is forgotten while reserved asks wait for it",
        (
            _TEST_WAITING,
            _TEST_RESERVED,
        ),
    ),
    Defect(
        "last-key-unread",
        _SHELF,
        "ranking.improved[self._read :]",
        "ranking.improved[self._read + 1 :]",
        "a shelf misses a key that became smaller",
        (_TEST_SHELF,),
    ),
    Defect(
        "forgotten-keys-unread",
        _SHELF,
        "if self._forgotten != ranking.forgotten:",
        "if self._forgotten > ranking.forgotten:",
        "a shelf misses keys that the ranking has forgotten",
        (_TEST_SHELF,),
    ),
    Defect(
        "one-reason-is-all",
        _SHELF,
        "count = self.members[item] - 1",
        "count = 0",
        "who is on a shelf for two reasons leaves it with the first",
        (_TEST_SHELF,),
    ),
    Defect(
        "not-there-is-unlimited",
        _FITTING,
        "room.get(name, 0 if strict else None)",
        "room.get(name)",
        "all are looked at for a type that a node has not",
        (_TEST_FITTING,),
    ),
    Defect(
        "type-that-some-want",
        _FITTING,
        "if left is not None and len(wanting) == total:",
        "if left is not None:",
        "who wants nothing of a scarce type is not looked at",
        (_TEST_FITTING,),
    ),
    Defect(
        "exact-fit-lost",
        _FITTING,
        "(left, inf)",
        "(left, 0)",
        "who wants all that is left is not looked at",
        (_TEST_FITTING,),
    ),
    Defect(
        "every-hope-told",
        _SUPPLY,
        "is_first = not self.hopeful",
        "is_first = True",
        "every node that changes wakes those who are awake",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "hope-without-node",
        _SUPPLY,
        "or any(self.takes(node) for node in self.hopeful)",
        "or self.hopeful",
        "a supply gives hope though its nodes are full again",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "hopes-forgotten",
        _SUPPLY,
        "        if self.hopeful:\n            self.end_shortage()",
        "        if self.hopeful:\n            self.hopeful.clear()",
        "a node that nobody could use in this pass is never found again",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "too-many-hopes",
        _SUPPLY,
        "            self.end_shortage()\n        return is_first",
        "            self.hopeful.clear()\n        return is_first",
        "nodes are lost when many change at once",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "reserves-what-is-free",
        _SUPPLY,
        "return node.may_be_reserved(self.wanted)",
        "return node.takes(self.wanted)",
        "only nodes that have room are reserved",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "full-before-short",
        _SUPPLY,
        "return (fit_score(node, self.items), node.score)",
        "return (node.score, fit_score(node, self.items))",
        "the emptiest node is reserved, not the one that is least short",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "below-zero-is-shorter",
        _SUPPLY,
        "if available <= 0:",
        "if available == 0:",
        "a node that has less than nothing counts as more than one type short",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "reservable-without-hope",
        _CANDIDATES,
        "found += [supply for supply in may_hold if supply.offer(node)]",
        "found += []",
        "who wants a node reserved does not hear of one that comes",
        (_TEST_SUPPLY,),
    ),
    Defect(
        "unwritten-node",
        _CANDIDATES,
        "        self._heaps.write(node)\n        return found",
        "        return found",
        "a node that has become better is not found",
        (_TEST_CANDIDATES,),
    ),
    Defect(
        "better-mates-unwritten",
        _CANDIDATES,
        "return before is not None and score < before",
        "return before is None",
        "a node that comes earlier because of its zone is not found",
        (_TEST_CANDIDATES,),
    ),
    Defect(
        "zone-mates-stay",
        _SORTING,
        "return group\n",
        "return (node,)\n",
        "the scores of a node's zone are those of before",
        (_TEST_SORTING,),
    ),
    Defect(
        "latest-heaps-go",
        "core/licorne_core/scheduling/heap_room.py",
        "half = by_use[: (len(by_use) + 1) // 2]",
        "half = by_use[len(by_use) // 2 :]",
        "heaps that were asked just now make room",
        (_TEST_HEAPS,),
    ),
    Defect(
        "order-of-before",
        _HEAPS,
        "            if heap is not None:\n                yield from heap.empty()\n",
        "            supply.heap = heap\n",
        "heaps go on in the former order of nodes",
        (_TEST_HEAPS,),
    ),
    Defect(
        "greatest-of-before",
        _HEAPS,
        "            greatest.note(self._log[greatest.read :])\n",
        "",
        "a size is ruled out though a node has grown that would take it",
        (_TEST_HEAPS,),
    ),
    Defect(
        "greatest-for-ever",
        _HEAPS,
        "            self._greatest[type(supply)] = heap.sizes\n",
        "",
        "all nodes are looked at for each size, once they have been larger",
        (_TEST_HEAPS,),
    ),
    Defect(
        "answered-half-way",
        _HEAPS,
        "                raise StillLooking\n",
        "                return None\n",
        "a size counts as fitting nowhere before all nodes were looked at",
        (_TEST_HEAPS,),
    ),
    Defect(
        "tired-of-nothing",
        _TURN,
        "min(MOST_TRIES, TRIES * (decisions + 1))",
        "TRIES * (decisions + 1)",
        "a turn that may decide much tries far too much",
        ("tests/core/scheduling/test_turns.py",),
    ),
)
