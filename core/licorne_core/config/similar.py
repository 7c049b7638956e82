"""Suggestions for unknown words."""

from collections.abc import Sequence
from difflib import get_close_matches

LONGEST = 64
"""Characters of a word that is looked at; no word that is known is longer."""
MOST = 1000
"""Words that are looked at in one text, as a comparison takes some microseconds."""
ALIKE = 0.75
"""Least similarity of two words, from 0 to 1, for a suggestion."""


class Similar:
    """Finds the known word that is most like another one; gives up in a text of very many."""

    def __init__(self) -> None:
        """Start empty."""
        self._found: dict[tuple[str, Sequence[str]], str] = {}

    def to(self, word: str, known: Sequence[str]) -> str:
        """The known word that may be meant, in any case of letters; empty for none."""
        if len(word) > LONGEST:
            return ""
        key = word, known
        if key not in self._found:
            if len(self._found) == MOST:
                return ""
            matches = get_close_matches(word.lower(), known, n=1, cutoff=ALIKE)
            self._found[key] = matches[0] if matches else ""
        return self._found[key]
