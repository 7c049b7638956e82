"""Seeded defects in calls passed between members, and in requests answered by all members."""

from mutants.defect import Defect
from mutants.operators import drop, never, returns, swap

STREAMS = ("server/members/test_passed_streams",)

PASSING = (
    Defect(
        "passed-without-the-secret",
        "MembersService._pass",
        never("is_in"),
        "any caller that reaches the port passes calls on with any identity",
        STREAMS,
    ),
    Defect(
        "passed-on-twice",
        "Passing._begin",
        never("PassedOn"),
        "members that know different owners pass a call in circles",
        STREAMS,
    ),
    Defect(
        "effects-of-a-former-owner",
        "_Record.counts",
        returns("True"),
        "an RM without epochs receives decisions of two owners",
        STREAMS,
        nth=3,
    ),
    Defect(
        "last-messages-are-dropped",
        "_Record.counts",
        swap("self . _gone_at + LAST_SECONDS", "self._gone_at"),
        "a stream that its owner ended normally ends as if the owner had failed",
        STREAMS,
    ),
    Defect(
        "window-without-a-bound",
        "PackedCall.send",
        never("_room"),
        "messages that a slow reader does not accept are kept without bound",
        ("server/members/test_packing",),
    ),
    Defect(
        "credit-is-not-given",
        "PackedCall.receive",
        drop("_pieces_owed"),
        "a message larger than the window never arrives",
        ("server/members/test_packing",),
        nth=1,
    ),
    Defect(
        "pages-end-where-the-longest-ends",
        "page_of_all",
        swap("min ( ends ) ) ]", "max(ends))]"),
        "RMs of a member with a short page are missing",
        ("server/members/test_forwarding",),
    ),
    Defect(
        "bare-names-without-a-member",
        "Forwarding.first",
        never("missing"),
        "a bare name selects an RM of another member while its own member does not answer",
        ("server/members/test_forwarding",),
    ),
    Defect(
        "garbage-of-a-member-is-a-fault-here",
        "PackedStream._read_all",
        swap("parse ( pb . Frames , raw )", "pb.Frames.FromString(raw)"),
        "each invalid frame of a member logs a traceback",
        ("server/members/test_garbage",),
    ),
    Defect(
        "acts-of-the-page-stay-here",
        "Passing._begin",
        swap("isinstance ( context , PassedOn )", "hasattr(context, 'caller')"),
        "an operator's act on the page fails on a member that does not own the RM",
        ("server/http/ui/test_acts",),
    ),
    Defect(
        "passed-errors-lose-their-details",
        "errors:call_error",
        swap("code , message , details", "code, message"),
        "an error about a configuration loses its details if the owner is another member",
        ("server/members/test_packing",),
    ),
)
