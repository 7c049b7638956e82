"""The property `topology.swap-seconds` of a leaf."""

from typing import Final

from licorne_core.config.forms import Property, whole
from licorne_core.config.kinds import Key
from licorne_core.extensions.topology import STANDARD_SWAP, SWAP_SECONDS

_SECONDS: Final = whole(0, 86_400)

PROPERTIES = (
    Property(
        Key(
            "topology.swap-seconds",
            _SECONDS.kind,
            "for how many seconds the place of a gang member is kept that was lost with its node",
            "6",
            _SECONDS.write(STANDARD_SWAP),
            allowed=_SECONDS.allowed,
            where="leaf",
        ),
        SWAP_SECONDS,
        _SECONDS,
        after="topology.levels",
        standard=STANDARD_SWAP,
    ),
)
