"""Everything that a thing holds, down to the last bit, so that nothing can change unseen.

What is compared is the whole graph of objects, not a report on it: a book, a heap, a timer or a
setting that moves shows, whether anything reports it or not.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from support.core.parts import attributes_of

_PLAIN = (str, bytes, int, float, bool, type(None), Enum)


def digest_of(thing: object) -> dict[str, object]:
    """The values of all that can be reached from a thing, by the way that leads there.

    What is met a second time is shown as the way on which it was met first.
    """
    found: dict[str, object] = {}
    ways: dict[int, str] = {}
    kept: list[object] = []
    waiting: list[tuple[str, object]] = [("", thing)]
    while waiting:
        way, item = waiting.pop()
        if isinstance(item, _PLAIN):
            found[way] = item
        elif id(item) in ways:
            found[way] = f"as {ways[id(item)]}"
        else:
            ways[id(item)] = way
            # What is thrown away might give its id to another.
            kept.append(item)
            parts = list(_parts(item))
            found[way] = f"{type(item).__name__} of {len(parts)}"
            waiting += [(f"{way}{name}", part) for name, part in reversed(parts)]
    return found


def _parts(item: object) -> Iterable[tuple[str, object]]:
    """What a thing consists of; nothing for code and compiled expressions, which never change."""
    if isinstance(item, Mapping):
        for number, (key, value) in enumerate(item.items()):
            name = f"[{key!r}]" if isinstance(key, _PLAIN) else f"[#{number}]"
            if not isinstance(key, _PLAIN):
                yield f"{name}key", key
            yield name, value
    elif isinstance(item, set | frozenset):
        yield from ((f"{{{number}}}", part) for number, part in enumerate(item))
    elif isinstance(item, Iterable):
        yield from ((f"[{number}]", part) for number, part in enumerate(item))
    elif type(item).__module__.startswith("licorne_core"):
        yield from ((f".{name}", getattr(item, name)) for name in attributes_of(item))
