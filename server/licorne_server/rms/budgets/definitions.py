"""The definition of the budgets over RMs: from a file or an operator, stored, and put into force.

The text is stored as a document. At the start a stored definition of an operator takes precedence over the
file, and the file over a stored definition of a file. Later the newest change applies, whatever its origin.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from licorne_core.extensions.budgets.messages import SetBudgets
from licorne_core.extensions.budgets.tree import BudgetTree, load_budgets
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_core.values.resources import Resources
from licorne_server.engine.engine import Engine
from licorne_server.process.clock import Clock
from licorne_server.process.loop import stop_task
from licorne_server.process.settings import SettingsError
from licorne_server.store.configurations.default_file import DefaultFileError, read_default, watch_file
from licorne_server.store.configurations.revisions import Source
from licorne_server.store.configurations.thread import ConfigThread, Origin
from licorne_server.store.documents.documents import SHARED, TRIES, Conflict, Document, Documents, StoreError
from licorne_server.store.documents.encoding import Count, decode, encode
from licorne_server.wire.errors import (
    CallError,
    aborted,
    config_refused,
    failed_precondition,
    located,
    unavailable,
)
from licorne_server.wire.responses import nanoseconds

log = structlog.get_logger("core.configurations.budgets")

KEY = f"{SHARED}budgets"
"""Key of the document."""

ORIGIN = Origin("the server", "budgets")

Slices = Callable[[str], Mapping[RmId, Resources] | None]
"""Returns the slices of a budget; None if it bounds all RMs of this server exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """All budgets as a text, with the origin of the text. Revision 0: no budgets were ever defined."""

    text: str = ""
    revision: Count = 0
    source: Source = Source.FILE
    by: str = ""
    comment: str = ""
    time: Count = 0
    """Nanoseconds since 1970."""


def definition_in(document: Document) -> Definition:
    """Parse a document.

    Raises:
        Unreadable: the document holds no definition.
    """
    return decode(document.value, Definition) if document.revision else Definition()


STALE = "STALE_REVISION"
"""Reason of a refusal: the base revision is no longer in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """Result of an update: the definition in force, and `changed` if it differs from the former one."""

    changed: bool
    definition: Definition
    persistent: bool
    warnings: tuple[str, ...] = ()


class Budgets:
    """The budgets in force, and their updates from the file, operators and other members."""

    definition: Definition
    tree: BudgetTree
    """The budgets of the definition."""

    def __init__(
        self,
        engine: Engine,
        documents: Documents,
        thread: ConfigThread,
        clock: Clock,
        file: Path | None,
        slices: Slices,
    ) -> None:
        """Start without budgets; `thread` parses, and `slices` has the slices in force."""
        self.definition = Definition()
        self.tree = BudgetTree()
        self._engine = engine
        self._documents = documents
        self._thread = thread
        self._clock = clock
        self._file = file
        self._slices = slices
        # The text of the file as it was last read.
        self._read = ""
        self.problem = ""
        """The reason why the last read of the file failed; empty if it succeeded."""
        self._lock = asyncio.Lock()
        self._asked: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Put the stored budgets into force, or those of the file.

        Raises:
            SettingsError: they are invalid.
        """
        try:
            text = "" if self._file is None else await self._read_file()
            await self._parsed(text)
            stored = definition_in(await self._documents.read(KEY))
            is_ours = stored.source is Source.FILE and not self._documents.shared
            if self._file is not None and (not stored.revision or is_ours):
                try:
                    await self._replace_by_file(text)
                except CallError as error:
                    # Another member that started at the same time has stored them first.
                    if error.reason != STALE:
                        raise
                    stored = definition_in(await self._documents.read(KEY))
                else:
                    return
        except DefaultFileError as error:
            raise SettingsError(str(error)) from None
        except ConfigError as error:
            raise SettingsError(str(self._refused(error))) from None
        except StoreError as error:
            # Without the store no RM is admitted. Later rounds read the definition once the store answers.
            log.warning("stored budgets not read", reason=str(error))
            return
        except (ValueError, CallError) as error:
            raise SettingsError(f"the stored budgets cannot be used: {error}") from None
        if stored.revision:
            await self.follow(stored)
            if self._file is not None and text != stored.text:
                log.warning("budgets of the file not taken", file=str(self._file), stored=stored.revision)

    def watch(self) -> None:
        """Start to watch the file, if there is one."""
        if self._file is not None:
            work = watch_file("budgets", self._file, self._read, self._clock, self.reload_and_log)
            self._watch = asyncio.get_running_loop().create_task(work, name="budgets file")

    async def stop(self) -> None:
        """Stop watching."""
        await stop_task(self._watch)
        for task in self._asked:
            task.cancel()

    @property
    def has_file(self) -> bool:
        """True if there is a file to read again."""
        return self._file is not None

    async def reload(self) -> bool:
        """Read the file again; returns True if the budgets changed.

        An unchanged file does not undo an operator's change.

        Raises:
            CallError: the budgets cannot be stored.
            DefaultFileError: the file is unusable. Nothing is changed.
        """
        before, self.problem = self._read, ""
        try:
            text = await self._read_file()
            if text == before and self.definition.source is not Source.FILE:
                return False
            return await self._replace_by_file(text)
        except DefaultFileError as error:
            self.problem = str(error)
            raise

    def reload_soon(self) -> None:
        """Read the file again in the background, if there is one; the result is logged."""
        task = asyncio.get_running_loop().create_task(self.reload_and_log())
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def reload_and_log(self) -> None:
        """Read the file again, if there is one; the result is logged."""
        if self._file is None:
            return
        try:
            await self.reload()
        except (DefaultFileError, CallError) as error:
            log.error("budgets not read", reason=str(error))
        except Exception:
            # Only logged, so that the file is still watched.
            log.exception("budgets not read")

    async def update(
        self, text: str, base: int, source: Source, by: str, comment: str, origin: Origin
    ) -> Updated:
        """Store other budgets, and put them into force. `base` is the revision to replace; 0 for any.

        Raises:
            ConfigError: they are invalid.
            CallError: ABORTED, `base` is not in force any more; or they cannot be stored.
        """
        tree = await self._parsed(text, origin)
        time = nanoseconds(self._clock.now())
        wanted = Definition(text=text, source=source, by=by, comment=comment, time=time)
        async with self._lock:
            # All workers read the same file at their start, and all but the first find it stored.
            new, changed = await self._store(wanted, base, tries=1 if base else TRIES)
            await self._enforce(new, tree)
        if not changed:
            return Updated(changed=False, definition=new, persistent=self._documents.persistent)
        log.info(
            "budgets updated", revision=new.revision, source=source.value, by=by, comment=comment,
            budgets=len(tree.budgets),
        )  # fmt: skip
        for warning in tree.warnings:
            log.warning("budgets", warning=warning)
        return Updated(
            changed=True, definition=new, persistent=self._documents.persistent, warnings=tree.warnings
        )

    async def _store(self, wanted: Definition, base: int, tries: int) -> tuple[Definition, bool]:
        """Store a definition unless it is in force; returns the one in force, and True if it was stored.

        Raises:
            CallError: ABORTED, `base` is not in force any more; or it cannot be stored.
        """
        current = new = Definition()

        def change(document: Document) -> bytes | None:
            nonlocal current, new
            current = new = definition_in(document)
            if base and base != current.revision:
                raise _stale(current, base)
            if current.revision and wanted.text == current.text:
                return document.value
            new = replace(wanted, revision=current.revision + 1)
            return encode(new)

        try:
            changed = await self._documents.update(KEY, change, tries)
        except Conflict:
            raise _stale(replace(current, revision=current.revision + 1), base) from None
        except ValueError as error:
            raise _not_stored(error) from None
        except StoreError as error:
            # The write may have succeeded although the answer was lost.
            if await self._stored(error) != encode(new):
                raise _not_stored(error) from None
            changed = True
        return new, changed

    async def _stored(self, failure: StoreError) -> bytes:
        """The stored budgets after a failure of a write.

        Raises:
            CallError: UNAVAILABLE, reading fails as well.
        """
        try:
            return (await self._documents.read(KEY)).value
        except StoreError:
            text = f"the store does not answer, and the budgets may have been changed: {failure}"
            raise unavailable(text) from None

    async def follow(self, definition: Definition) -> None:
        """Put a stored definition into force, unless it is in force already."""
        if definition == self.definition:
            return
        try:
            tree = await self._parsed(definition.text)
        except ConfigError as error:
            # A member of another version has written the definition: the budgets in force remain.
            log.error("stored budgets not taken", revision=definition.revision, reason=str(error))
            return
        async with self._lock:
            await self._enforce(definition, tree)
        log.info("stored budgets in force", revision=definition.revision, budgets=len(tree.budgets))

    def has(self, name: str) -> bool:
        """True if there is a budget of that name."""
        return any(budget.name == name for budget in self.tree.budgets)

    async def store_again(self) -> None:
        """Store the definition in force if the store has none, for example because the store was replaced."""
        if self.definition.revision:
            with suppress(StoreError):
                await self._documents.compare_and_set(KEY, encode(self.definition), 0)

    async def _enforce(self, definition: Definition, tree: BudgetTree) -> None:
        self.definition, self.tree = definition, tree
        budgets = tuple(replace(budget, slices=self._slices(budget.name)) for budget in tree.budgets)
        await self._engine.submit(SetBudgets(budgets=budgets, floating=tree.floating))

    async def _replace_by_file(self, text: str) -> bool:
        """Make the file's text the definition.

        Raises:
            DefaultFileError: it has problems.
            CallError: it cannot be stored.
        """
        try:
            updated = await self.update(text, 0, Source.FILE, str(self._file), "", ORIGIN)
        except ConfigError as error:
            raise self._refused(error) from None
        return updated.changed

    async def _read_file(self) -> str:
        assert self._file is not None
        self._read = await asyncio.to_thread(read_default, self._file)
        return self._read

    async def _parsed(self, text: str, origin: Origin = ORIGIN) -> BudgetTree:
        return await self._thread.run(origin, partial(load_budgets, text), len(text))

    def _refused(self, error: ConfigError) -> DefaultFileError:
        lines = "\n".join(located(str(self._file), error.problems))
        return DefaultFileError(f"the budgets are refused:\n{lines}", error.problems)


def scope_of(tree: BudgetTree, name: str) -> str:
    """Digest of the scope of a budget: its patterns, the patterns of its descendants, and its resources."""
    below = [one for one in tree.budgets if one.name == name or one.name.startswith(f"{name}/")]
    patterns = sorted((member.rm, member.partition, member.queue) for one in below for member in one.members)
    names = next((sorted(one.limit) for one in below if one.name == name), [])
    # Members of several versions share a document: the digest of one scope must be the same in all of them.
    return hashlib.sha256(json.dumps([patterns, names]).encode()).hexdigest()[:16]


def refused(error: ConfigError) -> CallError:
    """The status of a refused update of an operator."""
    return config_refused(str(error), error.problems)


def _stale(current: Definition, base: int) -> CallError:
    who = f"{current.source.value}, {current.by}" if current.by else current.source.value
    return aborted(
        f"revision {current.revision} of the budgets is in force ({who}), "
        f"the change was made from revision {base}",
        STALE,
        revision=str(current.revision),
    )


def _not_stored(error: Exception) -> CallError:
    return failed_precondition(
        f"the budgets were not stored, so that nothing was changed: {error}", "NOT_STORED"
    )
