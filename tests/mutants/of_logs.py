"""Defects of the logs, and of what notices that a server stands still."""

from mutants.defect import Defect

_LINES = "server/licorne_server/logs/lines.py"
_REDIRECT = "server/licorne_server/logs/redirect.py"
_WRITER = "server/licorne_server/logs/writer.py"
_LEVELS = "server/licorne_server/logs/levels.py"
_WATCHDOG = "server/licorne_server/watchdog.py"
_TESTS_OF_LINES = ("tests/server/logs/test_lines.py",)
_TESTS_OF_LEVELS = ("tests/server/logs/test_levels.py",)
_TESTS_OF_WRITER = ("tests/server/logs/test_writer.py",)
_TESTS_OF_PROCESS = ("tests/server/logs/test_process.py",)
_TESTS_OF_WATCHDOG = ("tests/server/test_watchdog.py",)

LOGS = (
    Defect(
        "characters-as-they-are",
        _LINES,
        "return json.dumps(fitted(entry))",
        "return json.dumps(fitted(entry), ensure_ascii=False)",
        "characters that turn the direction of text get into the log",
        _TESTS_OF_LINES,
    ),
    Defect(
        "lines-without-room",
        _LINES,
        "if len(json.dumps(fit)) <= MAX_LINE:",
        "if fit:",
        "a line of escaped characters is longer than the limit",
        _TESTS_OF_LINES,
    ),
    Defect(
        "values-in-tracebacks",
        _LINES,
        "show_locals=False",
        "show_locals=True",
        "what RMs sent is logged with every traceback",
        _TESTS_OF_LINES,
    ),
    Defect(
        "one-allowance-for-all",
        _LINES,
        "cause = _cause_of(entry)",
        'cause = ""',
        "a flood of lines about one RM keeps out those about others",
        _TESTS_OF_LINES,
    ),
    Defect(
        "acts-fall-silent",
        _LEVELS,
        "return logging.NOTSET if name == AUDIT else _NUMBERS[self._level_of(name)]",
        "return _NUMBERS[self._level_of(name)]",
        "with the level `error` nobody sees what operators ask for",
        _TESTS_OF_LEVELS,
    ),
    Defect(
        "rm-takes-lines-away",
        _LEVELS,
        "return min((self._usual, *wanted), key=LEVELS.index)",
        "return max((self._usual, *wanted), key=LEVELS.index)",
        "an RM that wants few lines silences the log for everybody",
        _TESTS_OF_LEVELS,
    ),
    Defect(
        "level-outlives-its-rm",
        "server/licorne_server/rms.py",
        "        self.on_forgotten(rm_id)\n",
        "",
        "what an RM wanted of the log stays when it is forgotten",
        ("tests/server/test_rm_log_levels.py",),
    ),
    Defect(
        "rejections-without-end",
        "server/licorne_server/rejections.py",
        "in rejections[:MOST_TOLD]:",
        "in rejections:",
        "a large request that is refused whole has a line for each item",
        ("tests/server/test_rejections.py",),
    ),
    Defect(
        "queue-without-bound",
        _WRITER,
        "elif len(self._lines) >= max_lines or self._bytes + size > max_bytes:",
        "elif len(self._lines) >= max_lines:",
        "what waits for a blocked stderr is bounded in lines alone",
        _TESTS_OF_WRITER,
    ),
    Defect(
        "torn-lines-go-on",
        _WRITER,
        'b"\\n" + line if self._torn else line',
        "line",
        "a line is glued to what is left of another one",
        _TESTS_OF_WRITER,
    ),
    Defect(
        "drops-untold",
        _WRITER,
        "        self._tell()\n\n    def _next",
        "\n    def _next",
        "the log does not say in the end that lines are missing",
        _TESTS_OF_WRITER,
    ),
    Defect(
        "messages-in-pieces",
        _REDIRECT,
        "packet.decode(",
        'packet.partition(b"\\n")[0].decode(',
        "only the first line of what the C core of gRPC says is logged",
        _TESTS_OF_PROCESS,
    ),
    Defect(
        "closed-stderr-taken",
        "server/licorne_server/logs/process.py",
        "self._is_open = sys.stderr is not None",
        "self._is_open = True",
        "lines without stderr are not counted as dropped",
        _TESTS_OF_PROCESS,
    ),
    Defect(
        "failure-told-late",
        "server/licorne_server/engine.py",
        "        # The log comes last: whatever becomes of it, the probes know.\n",
        '        log.error("engine stopped", exc_info=error)\n',
        "a log that fails keeps the end of the engine from the probes",
        _TESTS_OF_WATCHDOG,
    ),
    Defect(
        "pauses-count",
        _WATCHDOG,
        "counted = min(elapsed, 2 * self._interval)",
        "counted = elapsed",
        "a server that was paused is taken for one that stands still",
        _TESTS_OF_WATCHDOG,
    ),
    Defect(
        "stands-still-for-ever",
        _WATCHDOG,
        "elif still >= 2 * self._limit:",
        "elif still >= 1000 * self._limit:",
        "a process whose loop hangs does not end",
        ("tests/server/test_watchdog.py::test_a_loop_that_does_not_turn_is_a_standstill",),
    ),
    Defect(
        "fails-with-success",
        "server/licorne_server/serve.py",
        "return FAILED if server.failed.is_set() else OK",
        "return OK",
        "a server whose engine has ended exits as if it had been told to",
        _TESTS_OF_WATCHDOG,
    ),
    Defect(
        "waits-for-a-signal",
        "server/licorne_server/app.py",
        "        self.failed.set()\n",
        "",
        "a server whose engine has ended stands still",
        ("tests/server/test_watchdog.py::test_a_cancelled_engine_has_failed",),
    ),
)
