"""Asks for which no start is found have their turns one after the other."""

from licorne_core.scheduling.unplanned import MOST_IN_VAIN, MOST_KEPT, RETRY_TIME, Unplanned
from licorne_core.values.ids import AppId


def test_turns_come_one_after_the_other() -> None:
    """Who was looked for in vain comes again behind those that wait; nobody has to wait for ever."""
    unplanned, looked = Unplanned(), []
    names = [AppId(f"app{number:03}") for number in range(100)]
    now, due = 0.0, dict.fromkeys(names, 0.0)
    while now < 300.0:
        for name in [one for one in names if due[one] <= now]:
            due[name] = unplanned.turn(name, now)
            if due[name] <= now:
                looked.append((now, name))
                due[name] = unplanned.failed(name, now)
        now = min(due.values())
    assert {name for _, name in looked} == {*names}
    assert sum(not at for at, _ in looked) <= MOST_IN_VAIN + 2
    for since, _ in looked:
        some = [at for at, _ in looked if since < at <= since + RETRY_TIME]
        assert len(some) <= MOST_IN_VAIN + 1


def test_no_more_pauses_than_a_bound_are_kept() -> None:
    """Asks of ever new classes take no memory, and no ask waits for those that are gone for ever."""
    unplanned, now = Unplanned(), 0.0
    for number in range(5 * MOST_KEPT):
        now += 0.5
        until = unplanned.turn(AppId(f"app{number}"), now)
        until = unplanned.failed(AppId(f"app{number}"), now) if until <= now else until
        assert until <= now + (MOST_KEPT / MOST_IN_VAIN + 2) * RETRY_TIME
    later = now + (MOST_KEPT / MOST_IN_VAIN + 3) * RETRY_TIME
    assert unplanned.failed(AppId("last"), later) == later + RETRY_TIME
