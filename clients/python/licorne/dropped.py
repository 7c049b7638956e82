"""Resubmission of asks that the server has dropped.

When the placeholders of a gang have waited too long the server drops all asks of the application.
A ``Soft`` application then goes back to Accepted. Its members are asked for again at that moment,
or in the replay of a new session, if there is one before.
"""

from collections.abc import Iterable

from licorne.known import AppKey, KnownAsk


class Dropped:
    """Dropped asks by application. Each is taken once, or forgotten."""

    def __init__(self) -> None:
        """Start without asks."""
        self._by_application: dict[AppKey, dict[str, KnownAsk]] = {}
        self._application_of: dict[str, AppKey] = {}
        """By key: where each of them is."""

    def add(self, known: KnownAsk) -> None:
        """Add an ask behind those of its application that were dropped before."""
        ask = known.ask
        application = ask.partition, ask.application_id
        self._by_application.setdefault(application, {})[ask.key] = known
        self._application_of[ask.key] = application

    def forget(self, keys: Iterable[str]) -> None:
        """Remove asks that were released, or are asked for by the caller."""
        if not self._application_of:
            return
        for key in keys:
            application = self._application_of.pop(key, None)
            if application is not None:
                del self._by_application[application][key]

    def take(self, application: AppKey) -> list[KnownAsk]:
        """Take the asks of an application, in the order in which they were dropped."""
        taken = self._by_application.pop(application, {})
        for key in taken:
            del self._application_of[key]
        return list(taken.values())

    def take_all(self) -> list[KnownAsk]:
        """Take the asks of all applications."""
        return [
            known for application in list(self._by_application) for known in self.take(application)
        ]
