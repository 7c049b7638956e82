"""The Python client: sessions, replays, and the caller's events."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

CLIENT = (
    Defect(
        "replay-cannot-refuse-nodes",
        "Answers.nodes",
        without("replaying"),
        "a node that a replay loses stays in the cache",
        ("client/test_answers",),
    ),
    Defect(
        "said-to-the-former-session",
        "Stream._replay",
        drop("clear"),
        "what was meant for the former session is sent to the new one, beside the replay",
        ("test_new_session::test_a_resumption_that_is_not_honoured_costs_a_replay",),
    ),
    Defect(
        "resumes-after-a-loss",
        "Session.resumable",
        without("_lost"),
        "a session resumes though requests of it are not kept any more",
        ("client/test_session",),
    ),
    Defect(
        "repeats-are-news",
        "Session.accepts",
        swap("<=", "<"),
        "the last response is taken twice after a resumption",
        ("client/test_session",),
    ),
    Defect(
        "room-at-the-limit",
        "licorne:Inbox.put",
        swap(">=", "> 10 *"),
        "the buffer takes ten times what it may",
        ("client/test_inbox",),
    ),
    Defect(
        "refused-for-ever",
        "Connection._refused",
        never("live"),
        "a replay that is always refused is tried for ever",
        ("test_refused_messages",),
        nth=2,
    ),
    Defect(
        "added-behind-a-removal",
        "Packer._tail",
        without("_removing"),
        "an ask that was made after a release is handled before it",
        ("client/test_outgoing",),
    ),
    Defect(
        "asleep-within-the-window",
        "Outgoing.hold",
        without("_may_wait"),
        "what comes within a window while nothing is queued waits for a heartbeat",
        ("client/test_join_window",),
    ),
    Defect(
        "nobody-is-forced",
        "Replay.requests",
        swap("force", "False"),
        "applications that run may be turned away by a replay",
        ("test_cache",),
        nth=3,
    ),
    Defect(
        "preempted-at-once",
        "Endings._requested",
        without("placeholder"),
        "the room of a preempted allocation is given away while it still runs",
        ("client/test_gangs",),
    ),
    Defect(
        "token-where-a-server-says",
        "Addresses.tell",
        swap("filter ( self . _may_dial , sound )", "sound"),
        "a token goes in the clear to whatever address a server tells",
        ("client/test_addresses",),
    ),
    Defect(
        "dead-members-hold-up-the-living",
        "Addresses._living",
        swap("self . _silent . get ( address , now ) <= now", "True"),
        "a client whose member died dials it again and again while another one answers",
        ("client/test_addresses",),
    ),
)
