"""Items of requests as bytes: their size limits, and the parts that can be dropped.

A small item is parsed immediately. A large item is first scanned in parts, and the entries of its map of
texts, which may be very many, are read separately.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from licorne_server.wire.caps import MAX_ENTRIES, MAX_ID, MAX_ITEM_BYTES, size_problem, tags_problem
from licorne_server.wire.errors import Malformed
from licorne_server.wire.framing import FIELD, Pace, Place, delimited, skim, survey, text_of

SMALL = 8 * 1024
"""Number of bytes up to which an item is read in one step, because it cannot have many entries."""

_WALKED = 2 * MAX_ENTRIES
"""Maximum number of fields of an item that are examined; 8 MiB of labels have fewer."""

_KEY, _VALUE = 1, 2
"""Field numbers of key and value in an entry of a map."""

M = TypeVar("M", bound=Message)


class BadItem(Exception):
    """An item that cannot be accepted; the text is the reason for its RM."""


def check(problem: str) -> None:
    """Raise BadItem if there is a problem."""
    if problem:
        raise BadItem(problem)


def parse(message: type[M], raw: bytes) -> M:
    """Parse a message.

    Raises:
        Malformed: the bytes are no such message.
    """
    try:
        return message.FromString(raw)
    except DecodeError as error:
        raise Malformed(f"{message.DESCRIPTOR.name}: {error}") from None


def read_texts(name: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Copy a map of texts.

    Raises:
        BadItem: a key is not a valid name.
    """
    # For a map of protobuf this is twice as fast as dict().
    read = {key: texts[key] for key in texts}
    check(tags_problem(name, read))
    return read


class Layout(NamedTuple):
    """The fields of an item that matter before it is parsed."""

    what: str
    """Name of the kind of item, in a reason."""
    message: type[Message]
    names: Mapping[int, int]
    """The fields that a refusal of the item names, each with its limit in characters."""
    texts: str = ""
    """Name of the field that is a map of texts."""
    nested: tuple[int, ...] = ()
    """Numbers of the fields that each hold a message with entries."""
    counted: int = 0
    """Number of a field whose items have to be counted in any case; 0 if there is none. Such an item is
    accepted without most of its texts if it cannot be accepted with all of them.
    """
    meant: Container[str] = ()
    """Keys of the texts with a meaning for the server, in lower case; other texts only describe the item."""

    @property
    def entries(self) -> int:
        """Number of the field that is a map of texts; 0 if there is none."""
        return self.message.DESCRIPTOR.fields_by_name[self.texts].number if self.texts else 0


@dataclass(slots=True)
class Large:
    """A large item, split into its parts."""

    head: bytes
    """The fields that a refusal of the item names."""
    problem: str = ""
    """Reason for refusing the whole item; empty if there is none."""
    light: bytes = b""
    """The item without its texts; empty if it cannot be accepted without them either."""
    texts: dict[str, str] = field(default_factory=dict)
    """All texts of the item, if there is no problem."""
    meant: dict[str, str] = field(default_factory=dict)
    """The texts that have a meaning for the server."""
    retained: bytes = b""
    """The meaningful texts with short values, as fields of the item."""

    @property
    def lighter(self) -> bytes:
        """The item without the texts that only describe it."""
        return self.light + self.retained


def names_of(raw: bytes, limits: Mapping[int, int]) -> list[str]:
    """The texts in these fields of a small item, each cut at the limit of its field."""
    found = dict.fromkeys(limits, "")
    for number, _, value, end in skim(raw, limits).places:
        found[number] = text_of(number, raw[value:end])[: limits[number]]
    return list(found.values())


def without_entries(raw: bytes, layout: Layout) -> bytes:
    """A small item without its texts, except those with a meaning for the server.

    An entry longer than a name is dropped as well.
    """
    found = _Found(raw, layout)
    found.see(skim(raw, found.wanted).places)
    return found.light() + _fields_of(layout, _short(raw, found.texts[0], layout))


async def take_apart(raw: bytes, layout: Layout, pace: Pace) -> Large:
    """Split a large item, in parts of work.

    Raises:
        Malformed: the bytes are no such item.
    """
    await pace.begin(len(raw))
    found = _Found(raw, layout)
    count, end = await survey(raw, found.wanted, _WALKED, pace, found.see)
    large = Large(found.head())
    count += await _count_inside(raw, found.inner, MAX_ENTRIES - count, pace)
    large.problem = size_problem(layout.what, len(raw), MAX_ITEM_BYTES)
    if not large.problem and count > MAX_ENTRIES:
        large.problem = f"{layout.what} has more than {MAX_ENTRIES} entries"
    rest_is_fine = count - found.count <= MAX_ENTRIES and len(raw) - found.size <= MAX_ITEM_BYTES
    if large.problem and not (found.is_counted and rest_is_fine and end == len(raw)):
        return large
    large.light = found.light()
    for chunk in found.texts:
        _read_entries(large, raw, chunk, layout)
        if pace.spend(2 * len(chunk) * FIELD):
            await pace.rest()
    if large.problem and not found.is_counted:
        large.light = b""
    return large


class _Found:
    """Findings of the walk through a large item."""

    def __init__(self, raw: bytes, layout: Layout) -> None:
        self._raw = raw
        self._layout = layout
        self._entries = layout.entries
        # The last field with each number that a refusal names.
        self._names: dict[int, bytes] = {}
        # The bytes so far that are not texts; the offset of the first byte that was not examined yet.
        self._others: list[bytes] = []
        self._rest = 0
        self.wanted = {self._entries, layout.counted, *layout.nested, *layout.names}
        self.texts: list[list[Place]] = []
        self.inner: list[Place] = []
        self.is_counted = False
        # Number of texts, and of their bytes.
        self.count = self.size = 0

    def see(self, places: Sequence[Place]) -> None:
        """Process the fields found in a part."""
        texts: list[Place] = []
        for place in places:
            number, begin, _, end = place
            if number == self._entries:
                texts.append(place)
                self.size += end - begin
                if begin > self._rest:
                    self._others.append(self._raw[self._rest : begin])
                self._rest = end
                continue
            self.is_counted = self.is_counted or number == self._layout.counted
            if number in self._layout.nested:
                self.inner.append(place)
            elif number in self._layout.names:
                self._names[number] = self._raw[begin:end]
        self.count += len(texts)
        self.texts.append(texts)

    def head(self) -> bytes:
        """The fields that a refusal names."""
        return b"".join(self._names.values())

    def light(self) -> bytes:
        """The item without its texts."""
        return b"".join((*self._others, self._raw[self._rest :]))


async def _count_inside(raw: bytes, places: Sequence[Place], room: int, pace: Pace) -> int:
    """Count the fields inside these fields, stopping when they exceed `room`."""
    count = 0
    for _, _, value, end in places:
        if count > room:
            break
        count += (await survey(raw[value:end], (), room - count, pace))[0]
        if pace.spend(FIELD):
            await pace.rest()
    return count


def _read_entries(large: Large, raw: bytes, entries: Sequence[Place], layout: Layout) -> None:
    """Read some texts of an item; if it has a problem, only the meaningful short texts."""
    if not large.problem:
        try:
            read = read_texts(layout.texts, _texts(raw, entries, layout)) if entries else {}
            large.texts.update(read)
            large.meant.update(_meant(read, layout))
        except BadItem as problem:
            large.problem = str(problem)
    if layout.counted and entries:
        large.retained += _fields_of(layout, _short(raw, entries, layout))


def _texts(raw: bytes, entries: Sequence[Place], layout: Layout) -> Mapping[str, str]:
    wire = parse(layout.message, b"".join([raw[begin:end] for _, begin, _, end in entries]))
    texts: Mapping[str, str] = getattr(wire, layout.texts)
    return texts


def _short(raw: bytes, entries: Sequence[Place], layout: Layout) -> dict[str, str]:
    """The entries whose keys have a meaning, without those whose texts exceed `MAX_ID` bytes."""
    short = [place for place in entries if place[3] - place[2] <= MAX_ID]
    texts = _texts(raw, short, layout)
    return {name: texts[name] for name in texts if name.lower() in layout.meant}


def _meant(texts: Mapping[str, str], layout: Layout) -> dict[str, str]:
    return {name: value for name, value in texts.items() if name.lower() in layout.meant}


def _fields_of(layout: Layout, texts: Mapping[str, str]) -> bytes:
    return b"".join(
        delimited(
            layout.entries,
            delimited(_KEY, name.encode()) + delimited(_VALUE, value.encode()),
        )
        for name, value in texts.items()
    )
