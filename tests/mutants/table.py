"""The outcomes of defects in a file, so that a long run can be stopped and continued."""

from collections.abc import Sequence
from pathlib import Path

KILLED, SLOW_ONLY, SURVIVED = "killed", "slow ones only", "survived"
DOES_NOT_APPLY, NO_VERDICT = "does not apply", "no verdict"
_FINAL = (KILLED, SLOW_ONLY, SURVIVED)
"""The verdicts that are not tried again."""


class Table:
    """Verdicts, and a file with lines of `defect`, `verdict` and `test`, separated by tabs.

    A defect that no test detected has a line with `-` for the test. A defect without a verdict has no line.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.verdicts: dict[str, str] = {}
        """Verdicts by name of the defect, including those that the file already had."""
        if path and path.exists():
            rows = path.read_text(encoding="utf-8").splitlines()
            self.verdicts = {name: verdict for name, verdict, _ in (row.split("\t") for row in rows)}

    def add(self, name: str, verdict: str, noticing: Sequence[str]) -> None:
        """Record a verdict, with the tests that detected the defect."""
        self.verdicts[name] = verdict
        if self._path and verdict in _FINAL:
            rows = "".join(f"{name}\t{verdict}\t{test}\n" for test in noticing or ("-",))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(rows)
