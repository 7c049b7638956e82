"""How `licorne bench` ends, whatever it measures: failures are said, and become an exit code."""

from types import TracebackType

from licorne_cli.output.text import say
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError

OK = 0
FAILED = 2
INTERRUPTED = 130


class Outcome:
    """The exit code so far. Work is done in `with outcome:`, as often as there is any.

    A failure of the bench, or Ctrl-C, ends the block and is said; what stands behind the block goes
    on. Any other exception is a defect, and leaves the block.
    """

    code: int
    """The gravest that has happened."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self.code = OK

    @property
    def is_interrupted(self) -> bool:
        """Whether somebody has stopped it, so that no more should be begun."""
        return self.code == INTERRUPTED

    def __enter__(self) -> None:
        """Nothing has to be prepared."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Say what has failed; whether it goes on behind the block."""
        if isinstance(error, KeyboardInterrupt):
            say("stopped")
            self.code = INTERRUPTED
            return True
        if isinstance(error, (BenchError, ServerFailed)):
            say(f"licorne: {error}")
            self.code = max(self.code, FAILED)
            return True
        return False
