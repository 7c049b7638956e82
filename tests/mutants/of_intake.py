"""Defects of what is read ahead: the intake, numbers, the order of commands, the end of streams."""

from mutants.defect import Defect

_INTAKE = "server/licorne_server/intake.py"
_SESSIONS = "server/licorne_server/sessions.py"
_TEST_INTAKE = "tests/server/test_intake.py"

INTAKE = (
    Defect(
        "added-before-removed",
        _INTAKE,
        "return not (entry.request.items[added] and",
        "return True or (entry.request.items[added] and",
        "what is removed and added again is gone",
        (_TEST_INTAKE,),
    ),
    Defect(
        "mixed-kinds",
        _INTAKE,
        "if entry.kind is not first.kind:",
        "if entry.kind is Kind.SESSION:",
        "applications are read as nodes",
        (_TEST_INTAKE,),
    ),
    Defect(
        "number-of-the-first",
        _INTAKE,
        "number = entry.number",
        "number = first.number",
        "all but the first of the joined requests are wanted again",
        (_TEST_INTAKE,),
    ),
    Defect(
        "joined-without-bound",
        _INTAKE,
        "> MAX_JOINED:",
        "> 100 * MAX_JOINED:",
        "requests grow as large as what waits",
        (_TEST_INTAKE,),
    ),
    Defect(
        "read-without-bound",
        _INTAKE,
        "        if self._size > MAX_WAITING:\n            self._room.clear()\n",
        "",
        "an RM that sends fast fills the memory",
        (_TEST_INTAKE,),
    ),
    Defect(
        "fault-forgotten",
        _INTAKE,
        "        if not self._ended:\n            self._ended = True\n",
        "        if True:\n            self._ended = True\n",
        "a stream that made no sense ends as if all was well",
        (_TEST_INTAKE,),
    ),
    Defect(
        "rush-without-end",
        _INTAKE,
        "and len(self._waiting) < ENOUGH and not self._ended:",
        "and not self._ended:",
        "a full intake waits for more",
        (_TEST_INTAKE,),
    ),
    Defect(
        "read-is-handled",
        _SESSIONS,
        "        self._read = self._received\n",
        "        self._read = max(self._read, self._received)\n",
        "what was read from a broken stream and not carried out is lost",
        ("tests/server/test_sessions.py",),
    ),
    Defect(
        "read-twice",
        _SESSIONS,
        "        self._read = number or self._read\n",
        "        self._read = self._read\n",
        "a request that waits is taken again, and the next one refused",
        ("tests/server/test_sessions.py",),
    ),
    Defect(
        "answers-in-line",
        "server/licorne_server/inbox.py",
        "if isinstance(command, AnswerPredicates | AnswerPreemptions):",
        "if isinstance(command, AnswerPreemptions):",
        "answers wait behind what came earlier, and are late",
        ("tests/server/test_engine.py",),
    ),
    Defect(
        "victims-in-line",
        "server/licorne_server/inbox.py",
        "if isinstance(command, AnswerPredicates | AnswerPreemptions):",
        "if isinstance(command, AnswerPredicates):",
        "answers about victims wait behind what came earlier, and are late",
        ("tests/server/test_engine.py",),
    ),
    Defect(
        "room-that-never-comes",
        "server/licorne_server/services/conversation.py",
        "while not self._stream.over and (entry",
        "while (entry",
        "an RM whose stream broke while its outbox was full never comes back",
        ("tests/server/test_read_ahead.py",),
    ),
    Defect(
        "begun-on-a-lost-stream",
        "server/licorne_server/services/scheduler.py",
        "while not stream.over and (entry",
        "while (entry",
        "what a lost stream had brought gets into the books of the next registration",
        ("tests/server/test_read_ahead.py",),
    ),
)
