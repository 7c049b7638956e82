"""The page on high availability: the death of a member, on one machine."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.coordination.etcd import free_ports
from support.docs.pages import Page
from support.patience import PATIENCE


@pytest.mark.slow
@pytest.mark.needs("etcd")
def test_the_block_on_the_page_works(tmp_path: Path) -> None:
    """An RM that knows the address of one member is served by the other after the first was killed."""
    [block] = [block for block in Page("docs/high-availability.md").blocks() if block.why_not]
    told = ("2379", "2380", "7070", "7071", "9080", "9081")
    ports = dict(zip(told, map(str, free_ports(len(told))), strict=True))
    peers = f"http://127.0.0.1:{ports['2380']}"
    clients = f"http://127.0.0.1:{ports['2379']}"
    etcd = (
        f"etcd --listen-client-urls {clients} --advertise-client-urls {clients} --listen-peer-urls {peers} "
        f"--initial-advertise-peer-urls {peers} --initial-cluster default={peers}"
    )
    text = block.text.replace("etcd --data-dir", f"{etcd} --data-dir")
    for port in told:
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{ports[port]}")
    # Commands without a target ask the first member, which has another port here.
    environment = {**os.environ, "LICORNE_TARGET": f"127.0.0.1:{ports['7070']}", "PATH": _path(tmp_path)}
    script = f"set -eu; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}\nwait"
    with (tmp_path / "said").open("w+") as said:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            code = shell.wait(PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        said.seek(0)
        lines = said.read().splitlines()
    assert code == 0, "\n".join(lines[-40:])
    at_last = [line for line in lines if line.startswith("batch ")][-1]
    assert f"127.0.0.1:{ports['7071']}" in at_last


def _path(folder: Path) -> str:
    """A search path with a command `licorne` of this interpreter, which does not fork."""
    program = folder / "bin" / "licorne"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m licorne_server "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"
