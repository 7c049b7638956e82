"""Scheduling: the choice of the next ask and its node (spec §§ 4, 5, 8).

Theory of operation
===================

The order of decisions is that of a plain scheduler, which compares all queues, applications and nodes
anew after each allocation. Rankings, heaps and blockers give the same order at a lower cost.

Rankings and heaps
------------------
* Every queue ranks its children or applications, every application its ask groups
  (`values/ranking.py`). A fair leaf ranks users, and each user ranks applications (`model/queues/users.py`).
  The keys are in `order.py`. After a change only the keys on the path to root are
  derived again (`waiting/dirty.py`), and after an allocation only those of queues with ranked siblings.
* The `Precedence` of an extension comes before shares in a key. When only
  the precedence changes, the keys are derived anew (`Ranks.rekey`); items that are set aside stay so.
* Nodes are in heaps by score (`node_heap.py` and `index.py` in `node_search/`). The
  node order names the scores that a change of one node voids (`model/nodes/book.py`); the node index
  derives these scores again.
* `Greatest` (`node_search/node_heap.py`) has, for each resource type, an amount that no open node exceeds.

The pass (`cycle.py`) goes down from root: first queue, first application, first group. It makes the
checks of `checks.py` and asks the node index for a node. The first ask that passes all is served.
A search of very many nodes may outlast the turn (`StillLooking`). The next turn continues the search
for the same ask, and no other ask is served before it.

Blockers and wakeups
--------------------
An item that fails a check is *parked* with its first *blocker* (`waiting/waiting.py`). A blocker answers
one question: does it let an item through now? The kinds, and the changes that open them:

    blocker               blocks                     may open when
    OpenPlaceholders      real asks of a task group  no placeholder of the group is open
    QuotaShortage         amounts, in a quota        part of the quota is freed, or the maximum rises
    RunningLimit          accepted applications      an application of the quota stops running
    StoppedQueue          its priority-pass items    an operator starts the queue
    FullRoot              asks that require nodes    root has more headroom, or further victims
    ReservationLimit      asks that want a node      a reservation ends, or the bound rises
    AnswersOwed           asks with a predicate      an answer arrives, or an assumed ask is removed
    NextTurn              asks that preempt others   another turn begins
    Supply                a shape or an ask class    a node changes so that it takes the ask
    ReservableSupply      the same, to reserve       a node changes so that it can be reserved

Each change of the books marks what has changed: applications, queues, nodes, and the objects that blockers
depend on (`waiting/dirty.py`). A mark wakes nothing. `open_blockers` asks the blockers of the marked objects
if they let an item through now, and opens those that do. The next pass takes, at each level, the first in key
order of the active items and the items that lead to an open blocker. It asks the blocker again before it
descends: one freed node may open the blocker for many asks but fit only one. A blocker that lets no item
through is shut.

There is a supply or a shortage for each size, so there are many. Their asks are in the shared waiting
lines of a *pool*, which is either the open nodes or a quota. A waiting line (`waiting/waiting_line.py`)
stores the smallest request in each stretch of the line, and skips stretches that want more than is free.
If neighbours want similar amounts, most stretches are skipped. If large and small sizes alternate, the cost
of a change grows with the number of sizes.

Stages of the pass precede the queues (`stages.py`): asks with a claim, asks with a node reserved
(`order.py`), applications whose placeholders can be replaced by real asks (`replacing.py`). They use the same
blockers. When woken, their items are in rankings of their own from root down, under the same keys. A pass
without a decision ends with a review of the reservations, once a second (`standard/reservations/review.py`),
which considers some groups of the backlog (`waiting/wakeups.py`).

Each application has one heap of deadlines (`escalation.py`). At such a deadline, an ask of a group that
found no node is old enough for a remedy: a reservation, victims, a planned start. A request represents such
asks among the groups (`AgedAsks`); when it is tried, its `Remedy` finds a measure.

Shortcuts: items never examined
---------------------------------
* Queues and applications without active items that lead to no open blocker.
* Queues that an operator has stopped. Nothing in them is parked, so starting one costs one try.
* Nodes that have not changed since a supply was found short. Changed nodes are noted once, in the pool
  of all supplies (`waiting/supply.py`).
* All nodes, for a shape that wants more of a resource type than the greatest amount, or at least as much
  of every type as a shape whose search has just failed (`NodePool.rules_out`).
* Sizes larger than the freed amounts, except a few neighbours of a size that fits. For reserved asks,
  the most selective resource type decides (`FittingIndex` in `node_search/node_heap.py`).
* Root itself, after a pass without a decision and until the next mark (`runnable`).

Invariants
----------
Every class states its own under «Always true». `views/audit/invariants.py` checks them, and these:

W1  After a pass without a decision, no pending ask passes all checks of `explain`.
W2  A parked item and its ancestors are in the waiting lines of its blocker, and the item is not active.
W3  Each blocker in `Blockers` has blocked items.
W4  In a stopped queue nothing is reserved, assumed or parked.
L1  Each reservation, back-off and check that was written to the RM has a deadline. The deadline of a
    promise is that of its reservation; a placeholder has its own.

Tests play random worlds through this and through a plain scheduler without shortcuts: both make the same
decisions.
"""
