"""Seeded defects in the Python client: in sessions, in replays, and in the caller's events."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

CLIENT = (
    Defect(
        "replay-cannot-refuse-nodes",
        "Answers.nodes",
        without("replaying"),
        "a node that is lost in a replay stays in the cache",
        ("client/test_answers",),
    ),
    Defect(
        "said-to-the-former-session",
        "Stream._replay",
        drop("clear"),
        "messages queued for the former session are sent in the new one, in addition to the replay",
        ("test_new_session::test_a_refused_resumption_causes_a_replay",),
    ),
    Defect(
        "resumes-after-a-loss",
        "Session.resumable",
        without("_lost"),
        "a session resumes although some of its requests are not kept any more",
        ("client/test_session",),
    ),
    Defect(
        "repeats-are-news",
        "Session.accepts",
        swap("<=", "<"),
        "the last response is handled twice after a resumption",
        ("client/test_session",),
    ),
    Defect(
        "room-at-the-limit",
        "licorne:Inbox.put",
        swap(">=", "> 10 *"),
        "the buffer accepts ten times its maximum",
        ("client/test_inbox",),
    ),
    Defect(
        "refused-for-ever",
        "Connection._refused",
        never("live"),
        "a replay that is always refused is repeated for ever",
        ("test_refused_messages",),
        nth=2,
    ),
    Defect(
        "added-behind-a-removal",
        "Packer._tail",
        without("_removing"),
        "an ask submitted after a release is handled before it",
        ("client/test_outgoing",),
    ),
    Defect(
        "asleep-within-the-window",
        "Outgoing.hold",
        without("_may_wait"),
        "messages within a window, while nothing is queued, wait for a heartbeat",
        ("client/test_join_window",),
    ),
    Defect(
        "nobody-is-forced",
        "Replay.requests",
        swap("force", "False"),
        "a replay may have running applications rejected",
        ("test_cache",),
        nth=3,
    ),
    Defect(
        "preempted-at-once",
        "Endings._requested",
        without("placeholder"),
        "the room of a preempted allocation is free while the allocation still runs",
        ("client/test_gangs",),
    ),
    Defect(
        "token-where-a-server-says",
        "Addresses.tell",
        swap("filter ( self . _may_dial , sound )", "sound"),
        "a token is sent in clear text to any address that a server names",
        ("client/test_addresses",),
    ),
    Defect(
        "dead-members-hold-up-the-living",
        "Addresses._living",
        swap("self . _silent . get ( address , now ) <= now", "True"),
        "a client dials the address of a dead member again and again while another member answers",
        ("client/test_addresses",),
    ),
)
