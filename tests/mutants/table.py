"""Which tests noticed which defect, in a file that a run of hours can be stopped with."""

from collections.abc import Sequence
from pathlib import Path

KILLED, SLOW_ONLY, SURVIVED = "killed", "slow ones only", "survived"
DOES_NOT_APPLY, NO_VERDICT = "does not apply", "no verdict"
_FINAL = (KILLED, SLOW_ONLY, SURVIVED)
"""The verdicts that another run would only repeat."""


class Table:
    """Verdicts, and a file of lines `defect`, `verdict`, `test`, with a tab between them.

    A defect that nothing noticed has a line with `-` for the test. What has no verdict is not in the file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.verdicts: dict[str, str] = {}
        """By the names of defects, with those that the file had before."""
        if path and path.exists():
            rows = path.read_text(encoding="utf-8").splitlines()
            self.verdicts = {name: verdict for name, verdict, _ in (row.split("\t") for row in rows)}

    def add(self, name: str, verdict: str, noticing: Sequence[str]) -> None:
        """Note a verdict, with the tests that noticed the defect."""
        self.verdicts[name] = verdict
        if self._path and verdict in _FINAL:
            rows = "".join(f"{name}\t{verdict}\t{test}\n" for test in noticing or ("-",))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(rows)
