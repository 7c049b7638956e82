"""Programs of a control plane: their availability, and their logs."""

from functools import partial
from pathlib import Path

import pytest

from licorne_tools.bench.driver import BenchError
from licorne_tools.kube.processes import Processes, Program

ONCE = 'test ! -e "$1" || { echo "marked"; exit 1; }; touch "$1"; echo "can be used"; exec sleep 600'


async def test_log_lines_before_a_restart_do_not_count(tmp_path: Path) -> None:
    """A restarted program is not ready by its old log, and an error has the new one."""
    processes = Processes(tmp_path)
    ready = partial(processes.has_logged, "once", "can be used")
    await processes.start(Program("once", ["sh", "-c", ONCE, "sh", str(tmp_path / "mark")], ready))
    try:
        assert processes.runs("once")
        await processes.stop("once", kill=True)
        with pytest.raises(BenchError, match=r"once did not start:\n(.*\n)*marked"):
            await processes.restart("once")
    finally:
        await processes.close()
