"""Seeded defects in members: leases, epochs, moves. `properties/test_coordination` plants some of them."""

from mutants.defect import Defect
from mutants.operators import drop, returns, swap

MEMBERS = (
    Defect(
        "no-self-stop",
        "Lease.may_decide",
        returns("True"),
        "a paused member decides beyond the end of its lease",
        ("coordination/test_lease",),
    ),
    Defect(
        "self-stop-from-the-answer",
        "Lease._extend",
        swap("self . _until = sent", "self._until = self._clock.elapsed()"),
        "after a slow renewal, a member decides beyond the end of its lease",
        ("coordination/test_lease",),
    ),
    Defect(
        "comes-back-with-its-books",
        "Lease.run",
        drop("_end_all"),
        "a member that lost its lease serves its former RMs under the next lease",
        ("coordination/test_lease",),
    ),
    Defect(
        "epochs-of-the-store-alone",
        "Claiming.claim",
        swap("seen , floor", "seen, 0"),
        "epochs decrease after a wipe of the store",
        ("coordination/test_claiming",),
    ),
    Defect(
        "released-before-drained",
        "moving:Moves.hand_over",
        drop("ended"),
        "an RM is handed to its new owner while the former owner still sends",
        ("coordination/test_moving",),
    ),
    Defect(
        "takes-the-guard-of-moves-blindly",
        "Moves._balance",
        swap("document . revision", "(await self._store.read(MOVES)).revision"),
        "two members that balance at the same time both move an RM",
        ("coordination/test_moving",),
    ),
    Defect(
        "redirects-by-an-old-snapshot",
        "Claiming._find",
        swap("self . _snapshots . latest , False", "self._snapshots.latest, True"),
        "members whose watches missed an event redirect an RM to each other",
        ("coordination/test_claiming",),
    ),
    Defect(
        "takes-from-the-living",
        "Claiming._find",
        swap("owner_in ( snapshot , seen )", "None"),
        "an RM is claimed although its owner has a lease",
        ("coordination/test_claiming",),
    ),
    Defect(
        "old-list-behind-the-welcome",
        "SessionService._welcome",
        drop("tell_others"),
        "an RM that resumes may keep addresses of dead members",
        ("members/test_told_members",),
    ),
)
