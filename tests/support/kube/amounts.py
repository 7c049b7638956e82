"""The amounts of pods and nodes as whole numbers, from the notation of Kubernetes."""

import re
from decimal import Decimal

from licorne_tools.kube.api import Json

_QUANTITY = re.compile(r"([0-9.]+)(|m|k|M|G|Ki|Mi|Gi)")
_FACTORS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMG", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMG", start=1)},
}
_ENDED = frozenset({"Succeeded", "Failed"})

Amounts = dict[str, int]
"""Thousandths of cores as `cpu`, bytes as `memory`, and numbers of anything else, including pods."""


def amounts(quantities: dict[str, str]) -> Amounts:
    """Quantities in whole numbers."""
    return {name: _number(name, text) for name, text in quantities.items()}


def _number(name: str, text: str) -> int:
    match = _QUANTITY.fullmatch(text)
    assert match is not None, f"{name} is {text}, which is no quantity that tests write"
    return int(Decimal(match[1]) * _FACTORS[match[2]] * (1000 if name == "cpu" else 1))


def taken_by(pod: Json) -> Amounts:
    """The amounts that a pod occupies on its node, including one pod."""
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        requests = container.get("resources", {}).get("requests", {})
        for name, amount in amounts(requests).items():
            total[name] = total.get(name, 0) + amount
    return total


def has_ended(pod: Json) -> bool:
    """True if a pod has ended by itself, and occupies nothing any more."""
    return pod.get("status", {}).get("phase") in _ENDED
