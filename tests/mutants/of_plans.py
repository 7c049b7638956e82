"""Defects of plans, and of the copies on which they are made."""

from mutants.defect import Defect

_CORE = "core/licorne_core/whatif"
_COPIES = "server/licorne_server/copies.py"
_COPIED = "server/licorne_server/copied_process.py"
_CASES = ("tests/core/whatif/test_configuration_plans.py",)
_SUBMISSIONS = ("tests/core/whatif/test_submission_plans.py",)
_OF_COPIES = ("tests/server/test_copies.py",)

PLANS = (
    Defect(
        "plans-are-free",
        "server/licorne_server/pauses.py",
        "self._debt += seconds",
        "self._debt += 0.0",
        "plans in a loop take as much of the time as readers do",
        ("tests/server/test_pauses.py",),
    ),
    Defect(
        "victims-stay",
        f"{_CORE}/rehearsal.py",
        "            if told.termination not in _ASKED:\n",
        "            if told.termination not in _ASKED or told.key:\n",
        "what the RM is told to stop stays for ever in a plan",
        _SUBMISSIONS,
    ),
    Defect(
        "other-rms-decide-too",
        f"{_CORE}/rehearsal.py",
        "if rm.rm_id != rm_id:",
        "if rm.rm_id == rm_id:",
        "the RM that is planned for is on hold, and the others are not",
        _CASES,
    ),
    Defect(
        "no-time-passes",
        f"{_CORE}/rehearsal.py",
        "self.now = max(self.now, deadline)",
        "return",
        "a plan ends before any delay is over",
        (*_CASES, *_SUBMISSIONS),
    ),
    Defect(
        "quota-delays-do-not-count",
        f"{_CORE}/ahead.py",
        "delays.append(max(0.0, start - now) + MARGIN)",
        "delays.append(MARGIN)",
        "a plan looks away before maxima are enforced",
        _CASES,
    ),
    Defect(
        "removed-queues-drain",
        f"{_CORE}/queues.py",
        "change = DRAINING if after.applications else REMOVED",
        "change = DRAINING",
        "a queue that nothing keeps is said to drain",
        _CASES,
    ),
    Defect(
        "same-check-is-told",
        f"{_CORE}/configuration.py",
        'ask.code in ("", known.code)',
        'ask.code == ""',
        "asks are told of though the check that stops them is the same",
        _CASES,
    ),
    Defect(
        "given-null-counts",
        f"{_CORE}/defaults.py",
        "return not (isinstance(node, document.Scalar) and node.is_null)",
        "return True",
        "a null is taken for a value that the text gives",
        _CASES,
    ),
    Defect(
        "reset-is-inherited",
        f"{_CORE}/defaults.py",
        "giver[1].properties[key] == value",
        "bool(value)",
        "what starts over in every queue is said to be inherited",
        _CASES,
    ),
    Defect(
        "victims-of-others",
        f"{_CORE}/submission.py",
        "        if stopped.record.beneficiary_app_id == app.app_id\n",
        "",
        "a submission is blamed for victims of other applications",
        ("tests/properties/test_plans.py",),
    ),
    Defect(
        "copy-keeps-files",
        _COPIED,
        "        if number != kept:\n",
        "        if number < 0:\n",
        "a copy keeps its parent's ports and streams",
        _OF_COPIES,
    ),
    Defect(
        "half-an-answer",
        _COPIED,
        "if not kind or len(answer) != int.from_bytes(rest[:_LENGTH]):",
        "if len(answer) < 0:",
        "what a copy had told when it was killed is taken for an answer",
        _OF_COPIES,
    ),
    Defect(
        "given-up-copies-go-on",
        _COPIES,
        '                how = "".join([await self._end(child) for child in started])\n',
        '                how = ""\n',
        "nobody ends a copy whose caller has gone",
        _OF_COPIES,
    ),
    Defect(
        "turn-is-kept",
        "server/licorne_server/party_line.py",
        "                self._next()\n            else:",
        "                self._taken = True\n            else:",
        "who goes in the moment of getting a turn keeps it for ever",
        ("tests/server/test_party_line.py",),
    ),
)
