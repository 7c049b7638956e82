"""Runs of scenarios, one after the other, announced and printed."""

from collections.abc import Sequence

from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import HEADERS, Result, Run, as_json, as_rows, overview, setting_texts, title
from licorne_tools.bench.runs import alone, run_once
from licorne_tools.bench.scenarios import Scenario
from licorne_tools.commands.outcome import OK, Outcome
from licorne_tools.commands.progress import shown
from licorne_tools.commands.report import Report


def run(
    scenarios: Sequence[Scenario],
    options: Options,
    runs: int,
    report: Report | None,
    *,
    as_data: bool,
) -> int:
    """Measure each scenario so many times, and print what came of it; the exit code."""
    results: list[tuple[Scenario, list[Run]]] = []
    outcome = Outcome()
    build = this_build()
    say(str(build))
    with shown(options.progress), outcome:
        for scenario in scenarios:
            results.append((scenario, found := []))
            for number in range(1, runs + 1):
                found.append(one_run(scenario, options, f"run {number} of {runs}"))
    measured = [(scenario, found) for scenario, found in results if found]
    if measured:
        with while_read():
            show(measured, as_data=as_data, several=len(scenarios) > 1)
    if report is not None and outcome.code == OK:
        with outcome:
            report.write([(scenario, [found]) for scenario, found in measured], [build])
    return outcome.code


def one_run(scenario: Scenario, options: Options, which: str) -> Run:
    """One run, announced."""
    how = ", ".join(setting_texts(scenario))
    options.progress.begin(f"{scenario.name} ({how}), {which}")
    result = alone(run_once(scenario, options))
    rate = result["allocations_per_second"]
    say(f"{scenario.name} ({how}), {which}: {rate:,.0f} allocations/s")
    return result


def show(results: Sequence[Result], *, as_data: bool, several: bool) -> None:
    """Everything measured: of one scenario in full, of several a line each.

    As data it is complete either way: an object, or an array of them.
    """
    if as_data:
        objects = [as_json(scenario, runs) for scenario, runs in results]
        print_json(objects if several else objects[0])
    elif several:
        print_table(*overview(results))
    else:
        [(scenario, runs)] = results
        print(title(scenario))
        print_table(HEADERS, as_rows(runs))
