"""Changes of an RM's configuration.

A change for an RM that is not registered is only recorded, and comes into force at registration.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from licorne_core.config import SubmittedConfig
from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import UpdateConfiguration
from licorne_core.messages.effects import ConfigurationRefused, ConfigurationUpdated, NotRegistered
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.engine.engine import Engine
from licorne_server.process.loop import RunToCompletion
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.revisions import Revision, Revisions, Source, extra_text
from licorne_server.store.documents.documents import StoreError
from licorne_server.wire.errors import CallError, aborted, config_refused, failed_precondition

log = structlog.get_logger("core.configurations.applying")

CheckConfiguration = Callable[[RmId, SubmittedConfig], ConfigurationRefused | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new configuration for an RM, with author and comment; `config` is None for the server's default."""

    rm_id: RmId
    config: SubmittedConfig
    source: Source
    by: str
    comment: str = ""
    policy_group: str = ""
    extra_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Result of a change.

    `changed` is False if the configuration was in force already. `persistent` is True if the revision in
    force survives a restart. For an RM that is not `registered` it comes into force at registration.
    """

    changed: bool
    revision: Revision
    persistent: bool
    registered: bool


class Applier:
    """Applies changes, each completely or not at all. The caller holds the RM's lock."""

    def __init__(self, engine: Engine, configurations: Configurations, check: CheckConfiguration) -> None:
        """Apply changes through the engine.

        `check` finds the problem of a configuration for an RM that is not registered.
        """
        self._engine = engine
        self._check = check
        self._configurations = configurations
        self._stored = configurations.stored
        self._run_to_completion = RunToCompletion("configuration")

    async def stop(self) -> None:
        """Wait until the running changes have ended."""
        await self._run_to_completion.stop()

    def check_base(self, rm_id: str, base: int) -> None:
        """Refuse a change that is based on another revision than the one in force.

        Raises:
            CallError: ABORTED, with the number of the revision in force.
        """
        revisions = self._configurations.find(rm_id)
        if not base or revisions is None or revisions.current.number == base:
            return
        current = revisions.current
        who = f"{current.source.value}, {current.by}" if current.by else current.source.value
        raise aborted(
            f"RM {rm_id} runs revision {current.number} of its configuration ({who}), "
            f"the change was made from revision {base}",
            "STALE_REVISION",
            revision=str(current.number),
        )

    async def apply(self, change: Change) -> Applied:
        """Put the configuration into force; nothing is changed if it cannot be stored.

        A change that has begun is completed even if the caller is cancelled.

        Raises:
            CallError: the configuration was refused, or cannot be stored.
        """
        return await self._run_to_completion.run(self._carry_out(change))

    async def _carry_out(self, change: Change) -> Applied:
        before = self._configurations.get(change.rm_id)
        config = change.config or self._configurations.default.current
        after = self._after(before, change, config)
        is_new = after.current is not before.current
        # The default file is read again at every start.
        is_other = after is not before and change.source is not Source.FILE
        first_stored = is_other and self._configurations.documents.are_read_again
        if first_stored:
            await self._prepare(after)
        try:
            with self._configurations.expecting(after if is_new else None):
                changed = await self._submit(change, config)
        except BaseException:
            if first_stored:
                self._stored.discard(change.rm_id)
            raise
        # Applications, and thus their marks, may have ended in the meantime.
        in_force = after.marked_as(self._configurations.find(change.rm_id))
        self._configurations.put(in_force)
        kept = self._configurations.documents.persistent
        if first_stored:
            kept = await self._stored.commit(change.rm_id)
        if in_force is not after or not first_stored:
            self._configurations.save(change.rm_id)
        is_registered = changed is not None
        changed = is_new if changed is None else changed
        log.info(
            "configuration updated",
            rm_id=change.rm_id,
            changed=changed,
            registered=is_registered,
            revision=after.current.number,
            source=change.source.value,
            by=change.by,
            comment=change.comment,
        )
        tell_warnings(change.rm_id, config)
        return Applied(changed=changed, revision=after.current, persistent=kept, registered=is_registered)

    def _after(self, before: Revisions, change: Change, config: SubmittedConfig) -> Revisions:
        """The RM's revisions after the change."""
        if not isinstance(config, Configuration):
            return before
        source = change.source if change.config else self._configurations.default.source
        extra = extra_text(change.extra_config)
        after = self._configurations.after_change(
            before, config, source, by=change.by, comment=change.comment, extra=extra
        )
        return after.saying(config.text, extra) if change.source is Source.RM else after

    async def _prepare(self, after: Revisions) -> None:
        """Store the new revisions, before anything is changed.

        Raises:
            CallError: FAILED_PRECONDITION, the revisions cannot be written.
        """
        try:
            await self._stored.prepare(after.rm_id, after)
        except StoreError as error:
            raise failed_precondition(
                f"the configuration of RM {after.rm_id} cannot be stored, so that nothing was "
                f"changed: {error}",
                "NOT_STORED",
            ) from None

    async def _submit(self, change: Change, config: SubmittedConfig) -> bool | None:
        """Pass the configuration to the core; returns True if the core has changed anything.

        For an RM that is not registered, checks what can be checked without the RM, and returns None.

        Raises:
            CallError: the configuration was refused.
        """
        command = UpdateConfiguration(
            rm_id=change.rm_id,
            policy_group=change.policy_group,
            config=config,
            extra_config=dict(change.extra_config),
            replaces_extra=change.source is Source.ROLLBACK,
        )
        changed: bool | None = False
        for effect in await self._engine.submit(command):
            refused: ConfigurationRefused | None = None
            match effect:
                case NotRegistered():
                    refused, changed = self._check(change.rm_id, config), None
                case ConfigurationRefused():
                    refused = effect
                case ConfigurationUpdated(changed=True):
                    changed = True
            if refused is not None:
                raise _refusal(refused)
        return changed


def _refusal(effect: ConfigurationRefused) -> CallError:
    log.warning("configuration refused", rm_id=effect.rm_id, reason=effect.reason)
    return config_refused(effect.reason, effect.problems)


def unmark(
    configurations: Configurations, rm_id: RmId, applications: Iterable[tuple[PartitionName, str]]
) -> None:
    """Remove the marks of ended applications."""
    revisions = configurations.find(rm_id)
    if revisions is not None:
        configurations.put(revisions.without_marks(frozenset(applications)))
        configurations.save(rm_id)


_warned = structlog.get_logger("core.configurations.warnings")

MAX_LOGGED = 10
"""Maximum number of warnings of one configuration that are logged; further warnings are counted."""


def tell_warnings(rm_id: str, config: SubmittedConfig) -> None:
    """Log the warnings of a configuration that has come into force, if any."""
    if isinstance(config, Configuration) and config.warnings:
        _warned.warning(
            "configuration has warnings",
            rm_id=rm_id,
            number=len(config.warnings),
            warnings=list(config.warnings[:MAX_LOGGED]),
        )
