"""Scheduling: the choice of the next ask and its node (spec §§ 4, 5, 8).

Theory of operation
===================

The order of decisions is that of a plain scheduler: after each allocation, all queues, applications
and nodes are compared anew. The cost is not. Three things make the difference.

Rankings and heaps
------------------
* Every queue ranks its children or applications, every application its groups of alike asks
  (`values/ranking.py`). The keys are in `order.py`. After a change only the keys on the way to root are
  derived again (`waiting/dirty.py`), and after an allocation only those of queues with ranked siblings.
* Nodes stand in heaps by score (`node_heap.py`, `heaps.py` and `candidates.py` in `node_search/`). The
  node order says which scores a change of one node voids (`model/nodes/book.py`); the node index
  derives those.
* For each resource type, an amount that no open node exceeds (`Greatest` in `node_search/node_heap.py`).

The pass (`cycle.py`) goes down from root: first queue, first application, first group. It makes the
checks of `checks.py` and asks the node index for a node. The first ask that passes all is served.
Where very many nodes have to be looked at for it, the turn ends before the answer is known
(`StillLooking`), and the next turn goes on with the same ask: no other is served before it.

Blockers and wakeups
--------------------
An item that fails a check is *parked* with its first *blocker* (`waiting/waiting.py`). A blocker answers
one question: would it let an item through now? The kinds, and the changes that open them:

    blocker               blocks                     may open when
    OpenPlaceholders      real asks of a task group  no placeholder of the group is open
    QuotaShortage         amounts, in a quota        something of the quota is freed, or it grows
    RunningLimit          accepted applications      an application of the quota stops running
    StoppedQueue          its priority-pass items    an operator starts the queue
    BackOff               one application            its deadline has come
    ReservationLimit      asks that want a node      a reservation ends, or the bound rises
    AnswersOwed           asks with a predicate      an answer comes, or an assumed ask goes
    NextTurn              asks that preempt others   another turn begins
    Supply                a shape or an ask class    a node changes so that it would do
    ReservableSupply      the same, to reserve       a node changes so that it could be reserved

Each change of the books marks what has changed: applications, queues, nodes, and the things that
blockers depend on (`waiting/dirty.py`). A mark wakes nothing. `open_blockers` asks the blockers of the
marked things if they let an item through now, and opens those that do. The next pass takes, at each
level, the smaller of the active items and those that lead to an open blocker, and asks the blocker
before it goes that way: one freed node may open the way for many and have room for one. A blocker that
lets none through is shut.

Supplies and shortages are many, one for each size. So their asks stand in shared waiting lines, those of
the *pool*: the open nodes, or a quota. A waiting line (`waiting/waiting_line.py`) knows the smallest
request in each stretch of it, and passes over stretches that want more than there is.
That is most of them where neighbours want about the same. Where large and small sizes alternate, a
change costs the more the more sizes wait.

Asks with a node reserved come before all others (`order.py`), then applications whose
placeholders make way for real asks (`replacing.py`). They use the same blockers. Those that were
woken have rankings of their own from root down, under the same keys. A pass that
finds nothing ends with a review of the reservations, once a second (`reservations/review.py`), which
hears some of the asks that wait for nodes (`waiting/wakeups.py`).

Time (`escalation.py`): each application has one heap of deadlines. At a deadline its back-off ends,
or an ask of a group that found no node is old enough to have one reserved, or to preempt others. A
`ReservationRequest` and a `PreemptionRequest` stand for such asks among the groups
(`measures.py`).

Shortcuts: never looked at
--------------------------
* Queues and applications in which nothing is active and that lead to no open blocker.
* Queues that an operator has stopped. Nothing in them is parked, so that starting costs one look.
* Nodes that have not changed since a supply was found short. Those that have are noted once, in the
  pool of all supplies (`waiting/supply.py`).
* Any node, for a shape that wants more of a resource type than the greatest amount, or no less of
  any type than one that was just looked for in vain (`NodePool.rules_out`).
* Sizes that are larger than what was freed, but for a few neighbours of one that fits. Of reserved
  asks, the type that rules out most decides (`FittingIndex` in `node_search/node_heap.py`).
* Root itself, once a pass has found nothing and until the next mark (`runnable`).

Invariants
----------
Every structure has its own under «Always true». Over all of them (`views/audit/invariants.py` checks them):

W1  When a partition is at rest, no pending ask passes all checks of `explain`.
W2  A parked item is in the waiting lines of its blocker, with all that leads to it, and is not active.
W3  A blocker that is kept has blocked items.
W4  In a stopped queue nothing is reserved, assumed or parked.
L1  Everything kept for an ask has a deadline: a reservation, a back-off, a wait for an answer to a
    check that was written. Promises have that of their reservation, placeholders one of their own.

Tests play random worlds through this and through a plain scheduler, with each shortcut on and off
(`values/slices.py`): both decide the same.
"""
