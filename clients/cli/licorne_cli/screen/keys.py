"""Keys out of the bytes that a terminal sends."""

import codecs

ESCAPE = "\x1b"
LONGEST_SEQUENCE = 16
"""Of characters. A longer sequence is none of a key's, and is dropped."""

CONTROLS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\t": "tab"}
FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
TILDES = {
    "1": "home",
    "4": "end",
    "5": "page-up",
    "6": "page-down",
    "7": "home",
    "8": "end",
}


class Keys:
    """Takes bytes as they come, in pieces of any size, and gives the keys that are whole.

    A key is its character, or has a name: ``up``, ``enter``, ``escape``. Sequences of keys that
    have no name here mean nothing.
    """

    def __init__(self) -> None:
        """Begin with no key pressed."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._held = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are whole now."""
        keys = []
        for character in self._decoder.decode(data):
            if self._held:
                keys.extend(self._continued(character))
            elif character == ESCAPE:
                self._held = ESCAPE
            else:
                keys.extend(_plain(character))
        return keys

    @property
    def is_open(self) -> bool:
        """True while an escape may be a key, or begin the sequence of another."""
        return bool(self._held)

    def settle(self) -> list[str]:
        """End a sequence that nothing followed in time: the escape key, or nothing."""
        held, self._held = self._held, ""
        return ["escape"] if held == ESCAPE else []

    def _continued(self, character: str) -> list[str]:
        """One more character of a sequence; it ends with a letter or a tilde."""
        if self._held == ESCAPE:
            if character in "[O":
                self._held += character
                return []
            if character == ESCAPE:
                return ["escape"]
            self._held = ""
            return ["escape", *_plain(character)]
        self._held += character
        if "\x40" <= character <= "\x7e":
            sequence, self._held = self._held[2:], ""
            key = TILDES.get(sequence[:-1]) if character == "~" else FINALS.get(sequence)
            return [key] if key else []
        if len(self._held) > LONGEST_SEQUENCE:
            self._held = ""
        return []


def _plain(character: str) -> list[str]:
    if character in CONTROLS:
        return [CONTROLS[character]]
    return [character] if character.isprintable() else []
