"""The trial on a page, with each of its commands verbatim."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from support.docs.pages import ROOT, Page
from support.patience import PATIENCE

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

BLOCKS = [
    block.text
    for block in Page("docs/coming-from-yunikorn.md").blocks()
    if "tests/kube/test_trial.py" in block.why_not
]
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: default}, {name: batch, resources: {max: {vcore: 8}}}]
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def told() -> AsyncIterator[Mapping[str, str]]:
    """The output of `make kube`, with the variables for the user; an interrupt ends it."""
    begun = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_tools.kube.command", "--nodes", "5"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert begun.stdout is not None
    text = ""
    try:
        while "Ctrl-C" not in text:
            line = await begun.stdout.readline()
            assert line, text
            text += line.decode()
        yield {"": text, **dict(re.findall(r"([A-Z_]+)=(\S+)", text))}
    finally:
        begun.send_signal(signal.SIGINT)
        assert await begun.wait() == 0


async def play(block: str, told: Mapping[str, str], folder: Path) -> str:
    """Run the commands of a block like a user; return their output."""
    commands = f"{Path(sys.executable).parent}:{told['PATH'].replace('$PATH', os.environ['PATH'])}"
    given = {name: told[name] for name in ("KUBECONFIG", "LICORNE_TARGET")}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", block),
        cwd=folder,
        env={**os.environ, **given, "PATH": commands},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def test_the_trial_works_as_documented(told: Mapping[str, str], tmp_path: Path) -> None:
    """Pods of a Deployment run, and Licorne lists them; queues of a config map come into force."""
    assert "with 5 nodes" in told[""]
    command, first, queues = BLOCKS
    assert command.strip() == "make kube NODES=100"
    printed = await play(first, told, tmp_path)
    assert "successfully rolled out" in printed
    assert "Scheduled" in printed
    assert re.search(r"root\.default", printed)
    (tmp_path / "queues.yaml").write_text(QUEUES)
    create, diff, shown = queues.strip().splitlines()
    await play(create, told, tmp_path)
    # The shim reads the config map by a watch.
    await play(f"until {diff} > /dev/null; do sleep 0.2; done", told, tmp_path)
    assert "root.batch" in await play(shown, told, tmp_path)
