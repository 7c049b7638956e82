"""The wire: sessions, streams, and messages."""

from mutants.defect import Defect
from mutants.operators import never, returns, swap, without

WIRE = (
    Defect(
        "comes-undrained",
        "_ACTIONS",
        swap("CREATE_DRAIN", "CREATE"),
        "a node that comes drained takes allocations",
        ("client/test_recovery",),
        nth=2,
    ),
    Defect(
        "length-of-two-bytes",
        "Split._run",
        without("1"),
        "items of 128 bytes and more are cut wrongly",
        ("wire/test_framing",),
        nth=2,
    ),
    Defect(
        "invisible-key",
        "AskReader.read",
        without("isprintable"),
        "the second ask of a kind may have control characters in its key",
        ("test_convert_corners",),
    ),
    Defect(
        "number-of-the-first",
        "Intake._joined",
        swap("entry", "first"),
        "all but the first of the joined requests are wanted again",
        ("test_intake",),
        nth=2,
    ),
    Defect(
        "handled-twice",
        "Session.note_read",
        swap("<=", "<"),
        "the last request is handled again when it is repeated",
        ("rms/test_session",),
    ),
    Defect(
        "resumes-with-a-gap",
        "Outbox.after",
        without("number"),
        "who asks for what is not kept any more gets the rest as if it were all",
        ("test_outbox",),
    ),
    Defect(
        "joined-across-kinds",
        "Outbox.peek",
        without("stop"),
        "messages are joined across one of another kind, which comes too late",
        ("test_outbox",),
    ),
    Defect(
        "room-that-never-comes",
        "Exchange._carry_out",
        without("over"),
        "an RM whose stream broke while its outbox was full never comes back",
        ("test_read_ahead",),
        nth=1,
    ),
    Defect(
        "former-life",
        "Registration.is_current",
        returns("True"),
        "what is left of a request gets into the books of the next registration",
        (
            "rms/test_session",
            "test_former_registration",
        ),
    ),
    Defect(
        "lock-of-a-directory-that-is-gone",
        "FolderLock.check",
        never("is_ours"),
        "two servers write into one state directory",
        ("test_disk",),
    ),
    Defect(
        "fails-with-success",
        "serve:_until_the_end",
        returns("OK"),
        "a server whose engine has ended exits as if it had been told to",
        ("test_watchdog",),
    ),
    Defect(
        "a-report-that-goes-on",
        "Of.table",
        never("Mapping"),
        "a report shows usage of later moments than its own",
        ("views/test_fields",),
    ),
)
