"""Settings in the words of a configuration, for comparisons."""

from licorne_core.config.schema import (
    NodeSortPolicy,
    NodeSortType,
    PlacementRuleConfig,
    TemplateConfig,
)
from licorne_core.values.quantity import print_quantity
from licorne_core.values.resources import Resources

NONE = "none"
UNLIMITED = "unlimited"
NO_RULES = "none, which means provided"


def amounts(size: Resources | None) -> str:
    """``memory=4Gi,vcore=2``; ``none`` for none."""
    if not size:
        return NONE
    return ",".join(f"{name}={print_quantity(name, size[name])}" for name in sorted(size))


def number(count: int) -> str:
    """A number of applications, of which 0 is no limit."""
    return str(count) if count else UNLIMITED


def switch(on: bool) -> str:
    """``true`` or ``false``."""
    return "true" if on else "false"


def template(config: TemplateConfig | None) -> str:
    """Settings of dynamic leaves."""
    if config is None or config == TemplateConfig():
        return NONE
    parts = [
        f"max {amounts(config.max)}" if config.max else "",
        f"guaranteed {amounts(config.guaranteed)}" if config.guaranteed else "",
        f"maxapplications {config.max_applications}" if config.max_applications else "",
        *(f"{key}={value}" for key, value in sorted(config.properties.items())),
    ]
    return "; ".join(part for part in parts if part)


def rules(configs: tuple[PlacementRuleConfig, ...]) -> str:
    """All placement rules in order."""
    return "; ".join(map(_rule, configs)) or NO_RULES


def node_order(policy: NodeSortPolicy) -> str:
    """Order of nodes."""
    by = f" by {policy.attribute}" if policy.type is NodeSortType.SPREAD else ""
    weights = ",".join(f"{name}={weight:g}" for name, weight in sorted(policy.weights.items()))
    return f"{policy.type.value}{by} ({weights})"


def _rule(config: PlacementRuleConfig) -> str:
    parts = [config.name]
    if config.value:
        parts.append(config.value)
    if config.create:
        parts.append("create")
    if config.filter is not None:
        names = (*config.filter.users.entries, *config.filter.groups.entries)
        parts.append(f"{'allow' if config.filter.allow else 'deny'} {','.join(names)}")
    above = f" below ({_rule(config.parent)})" if config.parent is not None else ""
    return " ".join(parts) + above
