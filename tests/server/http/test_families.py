"""The text that scrapers read: names, types, labels, in both forms."""

from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from licorne_server.http.families import Families, counter, gauge
from support.server.http_site import read_openmetrics


def text(families: Families, *, openmetrics: bool = False) -> str:
    """The text of all families."""
    return "".join(families.lines(openmetrics=openmetrics))


def test_samples_of_one_name_are_contiguous() -> None:
    """A name to which samples are added repeatedly has one heading, followed by all its samples."""
    families = Families()
    families.put("gauge", "b", "Bees.", ("kind",), {("queen",): 1})
    families.put("gauge", "a", "Ants.", (), {(): 0.5})
    families.put("gauge", "b", "Bees.", ("kind",), {("drone",): 2})

    assert text(families) == (
        "# HELP a Ants.\n# TYPE a gauge\na 0.5\n"
        '# HELP b Bees.\n# TYPE b gauge\nb{kind="queen"} 1\nb{kind="drone"} 2\n'
    )


def test_tables_have_all_fields() -> None:
    """Each row has a field, one field for each label value, or a mapping by labels; all fields are used."""
    families = Families()
    hive = SimpleNamespace(queen=SimpleNamespace(age=2), eggs={"new": 3, "old": 1}, dead=0)
    rows = (
        gauge("age", "Years.", "queen.age"),
        gauge("eggs", "Eggs.", "eggs", "state"),
        counter("bees", "Bees.", {"dead": "dead", "all": lambda hive: sum(hive.eggs.values())}, "of"),
    )

    assert families.add(rows, hive, ("hive",), ("h1",)) == 5

    assert [line for line in text(families).splitlines() if not line.startswith("# HELP")] == [
        "# TYPE age gauge",
        'age{hive="h1"} 2',
        "# TYPE bees counter",
        'bees{hive="h1",of="dead"} 0',
        'bees{hive="h1",of="all"} 4',
        "# TYPE eggs gauge",
        'eggs{hive="h1",state="new"} 3',
        'eggs{hive="h1",state="old"} 1',
    ]


@pytest.mark.parametrize("strange", ['say "hi"', "back\\slash", "two\nlines", "ü", "{a='b'} 7", ""])
def test_label_values_survive_both_formats(strange: str) -> None:
    """Another parser reads the same label values in both formats."""
    families = Families()
    families.put("gauge", "a", "Ants.", ("x", "y"), {(strange, "z"): 3})

    (plain,) = parse_plain(text(families))
    (openmetrics,) = read_openmetrics(text(families, openmetrics=True) + "# EOF\n")

    for family in (plain, openmetrics):
        assert [(s.labels, s.value) for s in family.samples] == [({"x": strange, "y": "z"}, 3)]


def test_counters_keep_their_names() -> None:
    """A counter has its own name in both formats, with ``_total`` or without."""
    families = Families()
    families.put("gauge", "apps", "Apps.", (), {(): 1})
    families.put("counter", "apps_total", "Apps ever.", (), {(): 2})
    families.put("counter", "boxes", "Boxes ever.", (), {(): 3})
    families.put("counter", "cars_total", "Cars ever.", (), {(): 4})

    plain, openmetrics = text(families), text(families, openmetrics=True)

    for name in ("apps_total", "boxes", "cars_total"):
        assert f"# TYPE {name} counter\n{name} " in plain
    assert "# TYPE cars counter\ncars_total 4\n" in openmetrics
    assert "# TYPE apps_total unknown\napps_total 2\n" in openmetrics
    assert "# TYPE boxes unknown\nboxes 3\n" in openmetrics
