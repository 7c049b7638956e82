"""Members of a deployment: leases, epochs, moves. `properties/test_coordination` plants some too."""

from mutants.defect import Defect
from mutants.operators import drop, returns, swap

MEMBERS = (
    Defect(
        "no-self-stop",
        "Lease.may_decide",
        returns("True"),
        "a member that was paused decides beyond its lease",
        ("coordination/test_lease",),
    ),
    Defect(
        "self-stop-from-the-answer",
        "Lease._extend",
        swap("self . _until = sent", "self._until = self._clock.elapsed()"),
        "the answer to a renewal that was long under way lets a member decide beyond its lease",
        ("coordination/test_lease",),
    ),
    Defect(
        "comes-back-with-its-books",
        "Lease.run",
        drop("_end_all"),
        "a member that has lost its lease serves its RMs under the next one",
        ("coordination/test_lease",),
    ),
    Defect(
        "epochs-of-the-store-alone",
        "Claiming.claim",
        swap("seen , floor", "seen, 0"),
        "epochs fall when the store was wiped",
        ("coordination/test_claiming",),
    ),
    Defect(
        "released-before-drained",
        "moving:Moves.hand_over",
        drop("ended"),
        "an RM goes to its new owner while the former one still sends",
        ("coordination/test_moving",),
    ),
    Defect(
        "takes-the-guard-of-moves-blindly",
        "Moves._balance",
        swap("document . revision", "(await self._store.read(MOVES)).revision"),
        "two members that balance at the same moment both move an RM",
        ("coordination/test_moving",),
    ),
    Defect(
        "redirects-by-an-old-snapshot",
        "Claiming._find",
        swap("self . _snapshots . latest , False", "self._snapshots.latest, True"),
        "members whose watches have lost an event send an RM to and fro",
        ("coordination/test_claiming",),
    ),
    Defect(
        "takes-from-the-living",
        "Claiming._find",
        swap("owner_in ( snapshot , seen )", "None"),
        "an RM is claimed though its owner has a lease",
        ("coordination/test_claiming",),
    ),
    Defect(
        "old-list-behind-the-welcome",
        "SessionService._welcome",
        drop("tell_others"),
        "an RM that resumes may continue with addresses of members that are gone",
        ("members/test_told_members",),
    ),
)
