"""Wrong usage of `licorne bench`."""

import pytest

from licorne_cli.commands import main
from licorne_tools.bench.growth.catalogue import DIMENSIONS

SEVERAL = "--profile: there would be several servers; choose one"
REFUSED = {
    "targets": ("--batch=1", "--wire=si", "--against=pure", "--answer-after=1"),
    "growth": ("--pods=1", "--answer-after=1", "--against=pure"),
    "neighbour": ("--pods=1", "--rms=1", "--against=pure", "--pictures", "--report=nowhere"),
    "manyrms": ("--attack=asks", "--answer-after=1"),
    "utilisation": ("--nodes=3",),
    "kube": ("--batch=1", "--against=pure", "--answer-after=1"),
}
"""Options that separately measured scenarios cannot have."""
OTHERS = {
    ("growth", "--rate=1"): "--rate is for neighbour, manyrms and kube only",
    ("growth", "--only=asks,ask"): f"--only: 'ask' is none of {', '.join(DIMENSIONS)}",
    ("growth", "--only=asks", "--report=nowhere"): "--report has all dimensions: leave out --only",
    ("growth", "--minutes=3"): "--minutes is for utilisation only",
    ("growth", "core"): "growth is measured alone, without core",
    ("targets", "core"): "targets is measured alone, without core",
    ("wire", "--against=pure"): "--against and --profile need a server, and wire has none",
    ("wirelatency", "--profile=x"): "--against and --profile need a server, and wirelatency has none",
    ("neighbour", "core"): "neighbour is measured alone, without core",
    ("neighbour", "--profile=x"): f"{SEVERAL} line and run",
    ("utilisation", "core"): "utilisation is measured alone, without core",
    ("utilisation", "--only=asks"): "--only is for growth and kube only",
    ("utilisation", "--runs=2"): "--runs cannot be used with utilisation: --seeds draws other runs",
    ("kube", "--shape=all", "--rate=50"): "--rate: all shapes have rates of their own",
    ("kube", "--only=kube,cube"): "--only: 'cube' is none of kube, licorne, older",
    ("kube", "core"): "kube is measured alone, without core",
    ("core", "--shape=pods"): "--shape is for kube only",
    ("core", "--only=asks"): "--only is for growth and kube only",
    ("core", "--percent=1"): "--percent is for neighbour and manyrms only",
    ("core", "--seed=3"): "--seed is for utilisation only",
    ("core", "--pictures"): "--pictures needs --report",
    ("core", "--against=pure", "--profile=x"): f"{SEVERAL} scenario and wire",
    ("core1", "--profile=x"): f"{SEVERAL} scenario and wire",
    ("all", "core"): "all has core already",
    ("all", "--answer-after=0"): "--answer-after is for predicates only",
    ("shim", "--refuse=0"): "--refuse is for predicates only",
    ("shim1", "--table"): "--table is for predicates only",
    ("idle", "--wire=session"): "--wire: idle cannot be run over session",
    ("storm", "--wire=session"): "--wire: storm cannot be run over session",
    ("predicates", "--wire=si"): "--wire: predicates cannot be run over si",
    ("predicates", "--table", "--untagged"): "--untagged: the table has both ways",
    ("predicates", "--table", "--answer-after=1"): "--answer-after: the table has both ways",
    ("gang", "--sort=fair"): "--sort: gangs need applications in fifo order",
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *(
            ((name, option), f"{option.partition('=')[0]} cannot be used with {name}")
            for name, options in REFUSED.items()
            for option in options
        ),
        *OTHERS.items(),
    ],
    ids=str,
)
def test_contradicting_options_are_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured, and the line names the option."""
    assert main(["bench", *arguments]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"licorne: {said}\n")


@pytest.mark.parametrize("arguments", [("nosuch",), ("shim", "--nodes", "0"), ("shim", "--pods=x")])
def test_wrong_usage_has_an_exit_code(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is measured, and the exit code is that of wrong usage."""
    with pytest.raises(SystemExit) as refused:
        main(["bench", *arguments])
    assert refused.value.code == 1
    assert capsys.readouterr().out == ""
