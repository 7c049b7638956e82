"""Adds messages to the corpus: ``python tests/support/fuzz 0 20000``.

The two numbers are the range of seeds. A message is added if its answer is new to the corpus; the shortest of
such messages is used.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from support.fuzz import corpus, stage
from support.fuzz.corpus import Entry, Target
from support.wire.still import stillness

WORDS = 6
"""The number of first words by which answers are distinguished, without names and numbers."""
LONGEST = 400
"""The maximum of characters of a readable line of bytes."""


def kind_of(target: Target, answer: str) -> tuple[str, ...]:
    """The features that distinguish an answer."""
    words = re.findall(r"(?<![\w.\[])[A-Za-z_]{2,}(?![\w.])", answer)
    return (target.name, *[word for word in words if len(set(word)) > 2][:WORDS])


def main() -> None:
    """Read the files, draw, and write them with the new messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    arguments = parser.parse_args()
    entries = corpus.all_entries()
    shown = {kind_of(entry.target, answer) for entry in entries for answer in entry.answers}
    with stillness():
        drawn = [
            Entry(target, raw, ()).answered(answers)
            for target, raw, answers in stage.alone(range(arguments.first, arguments.end))
        ]
    for entry in sorted(drawn, key=lambda entry: len(entry.raw)):
        new = {kind_of(entry.target, answer) for answer in entry.answers} - shown
        if new and len(corpus.digits(entry.raw)) <= LONGEST:
            entries.append(entry)
            shown |= new
    corpus.write_all(entries)
    print(f"{len(entries)} messages")


if __name__ == "__main__":
    main()
