"""What the things of the core hold, whether the core is compiled or not."""

from itertools import chain


def attributes_of(thing: object) -> list[str]:
    """The names of all attributes that the thing has of its own, sorted."""
    kinds = type(thing).__mro__
    # A compiled class names its attributes there, and neither has slots nor gives a dictionary.
    listed = chain.from_iterable(
        vars(kind).get(names, ()) for kind in kinds for names in ("__slots__", "__mypyc_attrs__")
    )
    found = {*listed, *getattr(thing, "__dict__", ())}
    return sorted(name for name in found if hasattr(thing, name))
