"""Settings of a queue from its configuration, its parent and its template (spec §§ 2.4, 4.1)."""

from licorne_core.config.schema import QueueConfig, TemplateConfig
from licorne_core.model.queues.access import RECOVERY_PATH
from licorne_core.model.queues.limit_table import NO_LIMITS, LimitTable
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.quota import guaranteed_in_force, max_in_force
from licorne_core.values.resources import Resources

_NOTHING = TemplateConfig()


def configure(queue: Queue, config: QueueConfig) -> None:
    """Give a managed queue the settings of its configuration; its parent has been configured.

    All derived settings are derived anew, so that nothing of an earlier configuration stays. Root
    has no sizes of its own, and keeps its first `max_applications` (spec § 2.7.3).
    """
    parent = queue.parent
    if parent is not None:
        queue.guaranteed = guaranteed_in_force(config.guaranteed)
        queue.max = max_in_force(config.max)
        queue.max_applications = config.max_applications
    queue.properties = config.merged
    queue.settings = config.settings
    queue.admin_acl = config.admin_acl
    queue.submit_acl = config.submit_acl
    queue.limits = LimitTable(config.limits) if config.limits else NO_LIMITS
    queue.template = _template_of(queue, config.child_template)


def apply_template(queue: Queue) -> None:
    """Give a dynamic queue the settings of the template above it; parents come first.

    A leaf takes all of the template, a parent only hands it on. The recovery queue stays as it was
    made: fifo, without limits (spec § 3.14).
    """
    if queue.path == RECOVERY_PATH:
        return
    assert queue.parent is not None, "root is never dynamic"
    inherited = queue.parent.template
    if not queue.is_leaf:
        queue.template = inherited
        return
    queue.properties = (inherited or _NOTHING).properties
    queue.settings = (inherited or _NOTHING).settings
    apply_sizes(queue)


def apply_sizes(leaf: Queue) -> None:
    """Size a dynamic leaf by its applications' tags, or else by its template."""
    brought, template = leaf.brought, _template_above(leaf)
    leaf.guaranteed = guaranteed_in_force(brought.guaranteed or template.guaranteed)
    leaf.max = max_with(leaf, brought)
    leaf.max_applications = brought.max_applications or template.max_applications


def max_with(leaf: Queue, brought: TemplateConfig) -> Resources | None:
    """The maximum of a dynamic leaf for which applications have brought this; None for no bound."""
    return max_in_force(brought.max or _template_above(leaf).max)


def _template_above(leaf: Queue) -> TemplateConfig:
    assert leaf.parent is not None, "root is never dynamic"
    return leaf.parent.template or _NOTHING


def _template_of(queue: Queue, own: TemplateConfig | None) -> TemplateConfig | None:
    """A parent's template: its own, else that of the nearest ancestor with one; none for a leaf."""
    if queue.is_leaf:
        return None
    if own is not None and own != _NOTHING:
        return own
    return queue.parent.template if queue.parent is not None else None
