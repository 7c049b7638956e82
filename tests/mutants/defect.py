"""What a planted defect is, and how it is put into a tree of sources."""

from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path


class DoesNotApply(Exception):
    """The source has changed where the defect should be planted; the text says how."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A slip that a programmer could make, and the tests that have to notice it.

    `old` occurs exactly once in the file; with `new` in its place the file still parses.
    """

    name: str
    file: str
    old: str
    new: str
    wrong: str
    """What is wrong then, in a sentence."""
    tests: tuple[str, ...]
    """Files, or tests of a file as pytest names them."""

    def changed(self, tree: Path) -> str:
        """The file with the defect.

        Raises:
            DoesNotApply: there is no one place for it, or no such file.
        """
        path = tree / self.file
        if not path.is_file():
            raise DoesNotApply(f"{self.file} is not there")
        source = path.read_text(encoding="utf-8")
        found = source.count(self.old)
        if found != 1:
            raise DoesNotApply(f"{self.file} has {found} times {self.old!r}")
        changed = source.replace(self.old, self.new)
        try:
            compile(changed, self.file, "exec")
        except SyntaxError as error:
            raise DoesNotApply(f"{self.file} does not parse with {self.new!r}: {error}") from None
        return changed

    def plant(self, tree: Path) -> str:
        """Put it into the tree; the text of the file before."""
        path = tree / self.file
        before = path.read_text(encoding="utf-8")
        write(path, self.changed(tree))
        return before


def write(path: Path, text: str) -> None:
    """Write a source file so that Python does not take an older compilation for it."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
