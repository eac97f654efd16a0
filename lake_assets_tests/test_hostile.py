"""What somebody who can write the landing zone cannot do: names in files and paths stay names."""

from pathlib import Path
from urllib.parse import quote

import pytest

from lake_assets_tests.world import NW, World, sales

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


@pytest.mark.parametrize("name", NAMES)
def test_a_columns_name_is_a_name_only(local_world: World, name: str) -> None:
    local_world.land(NW, sales(1).append_column(name, [["value"]]))

    local_world.ingest(NW)

    table = local_world.arrow("SELECT * FROM lake.sales")
    assert name in table.column_names
    assert table.column(name).to_pylist() == ["value"]


@pytest.mark.parametrize("value", VALUES)
def test_a_partitions_value_is_a_value_only(local_world: World, tmp_path: Path, value: str) -> None:
    text = f"region={quote(value, safe='')},date=2026-02-11"
    local_world.land(text, sales(1))
    landed = files_below(tmp_path)

    local_world.ingest(text)

    assert local_world.query("SELECT region, total FROM lake.sales") == [(value, 1)]
    new = {path for path in files_below(tmp_path) - landed if not path.startswith("catalog.sqlite")}
    assert len(new) == 1
    assert all(path.startswith("data/main/sales/region=") for path in new)
    assert not (tmp_path.parent / "outside").exists()
