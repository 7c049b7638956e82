"""Draw docs/replay.svg with `licorne replay`: a recorded run, and the same run with another configuration.

    python docs/replay.py            write the picture
    python docs/replay.py --check    compare only; exit 1 where it differs

The work is generated from a seed and simulated in virtual time. Its commands are recorded as by a server.
"""

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from licorne_cli.commands import main as licorne
from licorne_core.messages.commands import Command, Options
from licorne_core.messages.effects import Effect
from licorne_core.values.asks import AskClass
from licorne_server.engine.journal.codec import entry
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.folder import Folder
from licorne_server.engine.journal.records import Digest, Header, JournalState
from licorne_server.engine.journal.writer import Writer
from licorne_server.lab.simulation.cluster import NodeKind
from licorne_server.lab.simulation.playing import Playing
from licorne_server.lab.simulation.workload import Group, Job

PICTURE = Path(__file__).with_name("replay.svg")
MORNING = 1_790_000_000.0
MINUTES, JOBS, SEED = 20, 180, 5
NODES = NodeKind(8, {"vcore": 16_000, "memory": 64 * 2**30})
HALVES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: train, resources: {max: {vcore: 64}}}
          - {name: serve, resources: {max: {vcore: 64}}}
"""
GUARANTEES = HALVES.replace("max: {vcore: 64}", "guaranteed: {vcore: 64}")


class Journaling:
    """Writes all commands of a core to a journal."""

    def __init__(self, folder: Path) -> None:
        """Open a journal in this folder."""
        files, state = Folder(folder, 2**30), JournalState()
        files.open()
        self._writer = Writer(files, state)
        self._writer.start(Header(run=1, version="docs", start=MORNING, options=Options()))
        self._digest, self._count = DigestOf(), 0

    def passes(self, now: float) -> None:
        """Write the digest of all decisions so far."""
        self._writer.put(entry(now, Digest(self._count, self._digest.value())))

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Write a command, and add its effects to the digest."""
        self._writer.put(entry(now, command))
        self._count += 1
        self._digest.saw(effects)

    def close(self) -> None:
        """Close the journal."""
        self._writer.close()


def jobs() -> Iterator[Job]:
    """The jobs of the run: training first, serving later."""
    dice = Random(SEED)
    for number in range(JOBS):
        queue = "train" if dice.random() < 0.6 else "serve"
        peak = 5.0 if queue == "train" else 12.0
        submit = MORNING + 60 * min(MINUTES, max(0.0, dice.gauss(peak, 3.0)))
        amounts = {"vcore": dice.choice((1000, 2000, 4000)), "memory": dice.choice((2, 4, 8)) * 2**30}
        yield Job(
            job=f"{queue}-{number}",
            submit=round(submit, 3),
            runtime=round(dice.uniform(40, 180), 3),
            declared=0,
            queue=f"root.{queue}",
            user="ann",
            group="",
            priority=0,
            gang=False,
            groups=(Group(dice.randint(1, 4), AskClass.of(amounts)),),
            waited=-1.0,
        )


def drawn() -> str:
    """The picture of both runs, as SVG."""
    with TemporaryDirectory() as folder:
        journal, after, picture = (Path(folder, name) for name in ("journal", "after.yaml", "both.svg"))
        journaling = Journaling(journal)
        work = sorted(jobs(), key=lambda job: job.submit)
        Playing(work, [NODES], HALVES, watchers=lambda _: [journaling]).run()
        journaling.close()
        after.write_text(GUARANTEES, encoding="utf-8")
        with redirect_stdout(io.StringIO()) as said:
            code = licorne(["replay", str(journal), "--config", str(after), "--picture", str(picture)])
        assert code == 0, said.getvalue()
        return picture.read_text(encoding="utf-8")


def main() -> int:
    """Write or compare the picture; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description="Draw docs/replay.svg.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    fresh = drawn()
    if not check:
        PICTURE.write_text(fresh, encoding="utf-8")
        return 0
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"{PICTURE.name} is not what the replay gives: run make picture", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
