"""What somebody who can write the landing zone cannot do: names in files and paths stay names."""

from pathlib import Path
from urllib.parse import quote

from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.world import NW, World, sales

__all__ = ["sessions"]

NAMES = [
    'x"; DROP TABLE lake.sales; --',
    "'; ATTACH '/etc/passwd' AS y; --",
    "<img src=x onerror=alert(1)>",
    "../../outside",
    "${HOME}",
    "a\nb",
    "%s{}?",
]
VALUES = ["../../outside", "/etc/passwd", "'; DROP TABLE sales; --", "<script>alert(1)</script>", "${HOME}", "%2e%2e"]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_columns_name_is_a_name_only(local_world: World) -> None:
    table = sales(1)
    for name in NAMES:
        table = table.append_column(name, [["value"]])
    local_world.land(NW, table)

    local_world.ingest(NW)

    (row,) = local_world.arrow("SELECT * EXCLUDE (id, total, region, date) FROM lake.sales").to_pylist()
    assert row == dict.fromkeys(NAMES, "value")


def test_a_partitions_value_is_a_value_only(local_world: World, tmp_path: Path) -> None:
    texts = [f"region={quote(value, safe='')},date=2026-02-11" for value in VALUES]
    for text in texts:
        local_world.land(text, sales(1))
    landed = files_below(tmp_path)

    outcomes = local_world.stream.ingest(texts, spark=local_world.sessions())

    assert len(outcomes) == len(VALUES)
    assert sorted(local_world.query("SELECT region, total FROM lake.sales")) == sorted((value, 1) for value in VALUES)
    new = {path for path in files_below(tmp_path) - landed if not path.startswith("catalog.sqlite")}
    assert len(new) == len(VALUES)
    assert all(path.startswith("data/main/sales/region=") for path in new)
    assert not (tmp_path.parent / "outside").exists()
