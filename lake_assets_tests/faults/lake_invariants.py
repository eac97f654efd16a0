"""Whether a lake is sound after a fault: what an independent reader finds in it, its storage, and its catalog's tables.

`assert_sound(world)` is for the end of each test of a fault, when nothing runs any more.
"""

import datetime as dt
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa

from lake_assets_tests.faults import catalog_invariants
from lake_assets_tests.faults.independent import Files, Row, catalog_tables
from lake_assets_tests.faults.visible_files import exported, lettered
from lake_assets_tests.world import World

NULL = "__HIVE_DEFAULT_PARTITION__"
ADDING = ("append", "index")
SHOWN = 5  # differences of one kind


def assert_sound(
    world: World, rows: Iterable[Row] | None = None, *, landed: bool | None = None, cleaning: bool = False
) -> None:
    """Fail with all that is wrong in the world's lake.

    Args:
        world: whose stream has the destination `sales`.
        rows: those that the table must have, with the partition columns as texts; those of the landing zone when None.
        landed: the manifest must know exactly the landed objects; by default if the rows are the landing zone's.
        cleaning: a clean-up was killed, so scheduled files may be gone until the next clean-up.
    """
    found = list(complaints(world, rows, landed=rows is None if landed is None else landed, cleaning=cleaning))
    assert not found, "the lake is not sound:\n" + "\n".join(found)


def complaints(world: World, rows: Iterable[Row] | None = None, *, landed: bool, cleaning: bool) -> Iterator[str]:
    """All that is wrong, in sentences."""
    tables = catalog_tables(world)
    yield from catalog_invariants.complaints(tables)
    catalog = catalog_invariants.Catalog(tables)
    yield from _stored(world, catalog, cleaning=cleaning)
    expected = landed_rows(world) if rows is None else [dict(row) for row in rows]
    if not tables:
        yield from ([f"there is no lake, and {len(expected)} rows are expected"] if expected else [])
        return
    try:
        with world.reader() as client:
            client.execute("SET TimeZone = 'UTC'")
            client.execute("BEGIN")  # one snapshot, whose tables DuckLake loads once
            yield from _read(client, world, catalog, expected, landed=landed)
    except duckdb.Error as error:
        yield f"DuckDB cannot read the lake: {error}"


def _read(
    client: duckdb.DuckDBPyConnection,
    world: World,
    catalog: catalog_invariants.Catalog,
    expected: Sequence[Row],
    *,
    landed: bool,
) -> Iterator[str]:
    present = _present(client)
    found = client.execute("SELECT * FROM lake.sales").to_arrow_table() if "sales" in present else None
    yield from _difference(world, found, expected)
    if found is not None:
        yield from _pruned(client, found)
    ledger = _rows(client, world, "ledger", "ingest_runs", present)
    yield from _recorded(world, catalog, ledger, found)
    yield from _manifested(world, ledger, _rows(client, world, "manifest", "ingest_files", present), landed=landed)
    deltas = _rows(client, world, "delta_manifest", "ingest_deltas", present)
    yield from exported(world, ledger, deltas, found.to_pylist() if found is not None else [])
    yield from lettered(world, ledger, _rows(client, world, "dead_letter_manifest", "ingest_dead_letters", present))


def landed_rows(world: World) -> list[dict[str, Any]]:
    """The rows of all objects in the landing zone, by pyarrow, with the values of their paths."""
    files = Files.of(world.source)
    result = []
    for uri in files.listed():
        values = {}
        for part in files.key(uri).split("/")[:-1]:
            name, _, value = part.partition("=")
            values[name] = None if value == NULL else unquote(value)
        result += [row | values for row in files.read(uri).to_pylist()]
    return result


def _stored(world: World, catalog: catalog_invariants.Catalog, *, cleaning: bool) -> Iterator[str]:
    """Every file that the catalog names is in its storage, with its size and its rows."""
    places = [Files.of(world.storage), Files.of(world.source)]
    encrypted = bool(world.lake_options.get("attach_options", {}).get("encrypted"))
    sizes = places[0].listed()
    for name in ("ducklake_data_file", "ducklake_delete_file"):
        for row in catalog.rows(name):
            uri = catalog.path(row)
            place = next((place for place in places if place.has(uri)), None)
            size = sizes.get(uri) or (place.size(uri) if place else None)
            if place is None or size is None:
                yield f"{name} names the file {uri}, which is not there"
            elif size != row["file_size_bytes"]:
                yield f"{name} says {row['file_size_bytes']} bytes of {uri}, which has {size}"
            elif name == "ducklake_data_file" and not encrypted and place.rows(uri) != row["record_count"]:
                yield f"{name} says {row['record_count']} rows of {uri}, which has {place.rows(uri)}"
    for row in catalog.rows("ducklake_files_scheduled_for_deletion"):
        uri = catalog.path(row)
        if not cleaning and not any(place.has(uri) and place.size(uri) is not None for place in places):
            yield f"ducklake_files_scheduled_for_deletion names the file {uri}, which is not there"


def _present(client: duckdb.DuckDBPyConnection) -> set[str]:
    names = client.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'").fetchall()
    return {str(name) for (name,) in names}


def _rows(client: duckdb.DuckDBPyConnection, world: World, option: str, name: str, present: set[str]) -> list[Row]:
    name = world.lake_options.get(option, name)
    return client.execute(f'SELECT * FROM lake."{name}"').to_arrow_table().to_pylist() if name in present else []


def _partition_columns(world: World) -> list[str]:
    return list(world.document["streams"]["sales"]["partitions"])


def _difference(world: World, found: pa.Table | None, expected: Sequence[Row]) -> Iterator[str]:
    """The rows that are missing in the lake, and those that it has too many."""
    names = found.column_names if found is not None else sorted({name for row in expected for name in row})
    if unknown := {name for row in expected for name in row} - set(names):
        yield f"the table lacks the columns {', '.join(sorted(unknown))}"
    keys = _partition_columns(world)

    def counted(rows: Iterable[Row]) -> Counter[tuple[object, ...]]:
        return Counter(tuple(_plain(row.get(name), is_text=name in keys) for name in names) for row in rows)

    present, wanted = counted(found.to_pylist() if found is not None else ()), counted(expected)
    for title, rows in (("lacks", wanted - present), ("has too many of", present - wanted)):
        if rows:
            some = "; ".join(f"{count} times {row}" for row, count in list(rows.items())[:SHOWN])
            yield f"the table {title} {rows.total()} rows, such as {some}"


def _plain(value: object, *, is_text: bool = False) -> object:
    """A value that can be compared and counted; NaN equals itself."""
    if is_text:
        return None if value is None else str(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Mapping):
        return tuple((name, _plain(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value


def _pruned(client: duckdb.DuckDBPyConnection, found: pa.Table) -> Iterator[str]:
    """Conditions on the least and the largest value of a column find their rows: no statistics are stale."""
    for name in found.column_names:
        values = [value for value in found[name].to_pylist() if value is not None and value == value]  # noqa: PLR0124
        if not values or not isinstance(values[0], int | float | str | Decimal | dt.date):
            continue
        for value in {min(values), max(values)}:
            text = str(value).replace("'", "''")
            query = f"SELECT count(*) FROM lake.sales WHERE \"{name}\" = '{text}'"
            (count,) = client.execute(query).fetchone() or (0,)
            if count != values.count(value):
                yield f"{query} finds {count} rows of {values.count(value)}"
        nulls = found[name].null_count
        (count,) = client.execute(f'SELECT count(*) FROM lake.sales WHERE "{name}" IS NULL').fetchone() or (0,)
        if count != nulls:
            yield f"{name} IS NULL finds {count} rows of {nulls}"


def _recorded(
    world: World, catalog: catalog_invariants.Catalog, ledger: Sequence[Row], found: pa.Table | None
) -> Iterator[str]:
    """The ledger: a row for each run and partition, its snapshot, and the rows that the partition has now."""
    for key, count in Counter((r["run_id"], r["destination_table"], r["load_partition"]) for r in ledger).items():
        if count > 1:
            yield f"the ledger has {count} rows of run and partition {key}"
    snapshots, oldest = set(catalog.snapshots), min(catalog.snapshots, default=0)
    messages = {r["snapshot_id"]: str(r) for r in catalog.rows("ducklake_snapshot_changes")}
    for row in ledger:
        snapshot = row["snapshot_id"]
        if (row["status"] == "committed") != (snapshot is not None):
            yield f"the ledger has a {row['status']} row of snapshot {snapshot}"
        elif snapshot is not None and snapshot not in snapshots and snapshot >= oldest:
            yield f"the ledger names snapshot {snapshot}, which does not exist"
        elif snapshot in snapshots and row["run_id"] not in messages[snapshot]:
            yield f"snapshot {snapshot} does not name run {row['run_id']}, whose ledger row names the snapshot"
    table_id = next(
        (r["table_id"] for r in catalog.rows("ducklake_table") if r["table_name"] == "sales" and not r["end_snapshot"]),
        None,
    )
    of_table = f"inserted_into_table:{table_id}", f"deleted_from_table:{table_id}"
    ours = {s for s, text in messages.items() if "'author': 'lake_assets'" in text and any(c in text for c in of_table)}
    if unsaid := ours - {row["snapshot_id"] for row in ledger}:
        yield f"no ledger row names the snapshots {sorted(unsaid)}, which are commits of lake_assets"
    present = _counts(world, found)
    for partition, rows in _commits(ledger).items():
        yield from _chain(partition, rows)
        if rows and _after(rows[-1]) != present.get(partition, 0):
            yield f"the ledger says {_after(rows[-1])} rows of {partition}, which has {present.get(partition, 0)}"
        if rows:
            yield from _counted(catalog, table_id, rows[-1])
    if unknown := {partition for partition, count in present.items() if count} - set(_commits(ledger)):
        yield f"the ledger has no commit of the partitions {sorted(map(str, unknown))}"


def _commits(ledger: Iterable[Row]) -> dict[tuple[str | None, ...], list[Row]]:
    """The commits of each partition, in the order of their snapshots."""
    result: dict[tuple[str | None, ...], list[Row]] = defaultdict(list)
    committed = (row for row in ledger if row["status"] == "committed" and row["snapshot_id"] is not None)
    for row in sorted(committed, key=lambda row: int(row["snapshot_id"])):
        result[_values(row["load_partition"])].append(row)
    return result


def _values(path: str) -> tuple[str | None, ...]:
    texts = [part.partition("=")[2] for part in path.split("/")]
    return tuple(None if text == NULL else unquote(text) for text in texts)


def _after(row: Row) -> int:
    return int(row["row_count"]) + (int(row["rows_before"]) if row["mode"] in ADDING else 0)


def _chain(partition: object, rows: Sequence[Row]) -> Iterator[str]:
    """Each commit found the rows that the one before it left."""
    for before, row in itertools.pairwise(rows):
        if row["rows_before"] != _after(before):
            yield (
                f"the commit {row['snapshot_id']} of {partition} found {row['rows_before']} rows, and the one before "
                f"it left {_after(before)}"
            )


def _counted(catalog: catalog_invariants.Catalog, table_id: object, row: Row) -> Iterator[str]:
    """The files and bytes that the last commit of a partition wrote, if the ledger knows them."""
    if row["files_written"] is None or row["bytes_written"] is None:
        return
    of_partition: dict[object, dict[int, str | None]] = defaultdict(dict)
    for value in catalog.rows("ducklake_file_partition_value"):
        of_partition[value["data_file_id"]][value["partition_key_index"]] = value["partition_value"]
    files = [
        file
        for file in catalog.live_files(table_id)
        if file["begin_snapshot"] == row["snapshot_id"]
        and tuple(v for _, v in sorted(of_partition[file["data_file_id"]].items())) == _values(row["load_partition"])
    ]
    counted = len(files), sum(int(file["file_size_bytes"]) for file in files)
    if counted != (row["files_written"], row["bytes_written"]):
        said = row["files_written"], row["bytes_written"]
        yield f"the ledger says {said} files and bytes of {row['load_partition']}, and the catalog has {counted}"


def _counts(world: World, found: pa.Table | None) -> Counter[tuple[str | None, ...]]:
    if found is None:
        return Counter()
    rows = found.select(_partition_columns(world)).to_pylist()
    return Counter(tuple(None if v is None else str(v) for v in row.values()) for row in rows)


def _manifested(world: World, ledger: Sequence[Row], manifest: Sequence[Row], *, landed: bool) -> Iterator[str]:
    """The manifest: only objects of committed runs, each once, as many as the ledger says, and those that landed."""
    committed = {(r["run_id"], _values(r["load_partition"])): r for r in ledger if r["status"] == "committed"}
    of_run: dict[tuple[str, object], list[Row]] = defaultdict(list)
    for row in manifest:
        of_run[row["run_id"], _values(row["load_partition"])].append(row)
    for key in of_run.keys() - committed.keys():
        yield f"the manifest has {len(of_run[key])} rows of run and partition {key}, which the ledger did not commit"
    for key, rows in of_run.items():
        if len({row["uri"] for row in rows}) != len(rows):
            yield f"the manifest has an object of run and partition {key} twice"
    if landed:
        yield from _landed(world, _known(ledger, of_run))
    for (run_id, partition), commit in committed.items():
        count = len(of_run.get((run_id, partition), ()))
        if commit["mode"] in ("replace", "restore") and commit["source_files"] not in (None, count):
            yield f"the ledger says {commit['source_files']} objects of {run_id}, and the manifest has {count}"


def _known(ledger: Sequence[Row], of_run: Mapping[tuple[str, object], Sequence[Row]]) -> dict[str, Row]:
    """The objects that the rows of today were made of, by their URIs."""
    known: dict[str, Row] = {}
    for partition, commits in _commits(ledger).items():
        of_partition: dict[str, Row] = {}
        for commit in commits:
            if commit["mode"] in ("replace", "restore"):
                of_partition = {}
            for row in of_run.get((commit["run_id"], partition), ()):
                of_partition[row["uri"]] = row
        known |= {uri: row for uri, row in of_partition.items() if row["etag"]}  # others were taken out
    return known


def _landed(world: World, known: Mapping[str, Row]) -> Iterator[str]:
    """The known objects are those that have landed."""
    files = Files.of(world.source).listed()
    if unknown := files.keys() - known.keys():
        yield f"the manifest lacks {len(unknown)} landed objects, such as {min(unknown)}"
    if gone := known.keys() - files.keys():
        yield f"the manifest has {len(gone)} objects that are not landed, such as {min(gone)}"
    for uri in files.keys() & known.keys():
        if known[uri]["size"] != files[uri]:
            yield f"the manifest says {known[uri]['size']} bytes of {uri}, which has {files[uri]}"
