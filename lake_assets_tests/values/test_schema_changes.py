"""Every cell of the table in `docs/schema-changes.md`: what becomes of a change, and of every value, old and new."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.config.modes import Mode, SchemaPolicy
from lake_assets.ingest.index.index_run import index_all
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import register_by_extension, replace_by_extension
from lake_assets.lake.commit.insert import replace_by_insert
from lake_assets.lake.commit.strategy import REGISTER_STRATEGIES
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.values import schema_changes
from lake_assets_tests.values.schema_changes import MEANINGS, POLICIES, Change
from lake_assets_tests.world import World

PAGE = Path(__file__).parents[2] / "docs" / "schema-changes.md"
STRATEGIES: dict[str, Any] = {
    "direct": replace_directly,
    "extension": replace_by_extension,
    "insert": replace_by_insert,
}
REGISTRATIONS: dict[str, Any] = {"direct": REGISTER_STRATEGIES, "extension": (register_by_extension,)}
UNTOUCHED = "untouched"


@dataclass
class Life:
    """A table whose every partition but one has got a change."""

    mode: Mode
    policy: SchemaPolicy
    world: World
    outcomes: dict[str, Outcome]
    columns: dict[str, str]  # names and types, before the changes
    columns_after: dict[str, str]
    snapshot: int  # before the changes
    rows: dict[str, list[dict[str, Any]]]  # by partition, in the order of the commits
    rows_then: dict[str, list[dict[str, Any]]]  # as of that snapshot


def cases() -> Iterator[Any]:
    for mode in get_args(Mode):
        for strategy in REGISTRATIONS if mode == "index" else STRATEGIES:
            for policy in POLICIES[:1] if mode == "index" else POLICIES:
                few = (mode, strategy) == ("replace", "direct") and policy != "ignore_extra"
                # What a policy refuses or leaves out, it does before the mode and the strategy come into it.
                rare = strategy == "insert" or (strategy != "direct" and (policy != "evolve" or mode == "append"))
                marks = () if few else pytest.mark.soak if rare else pytest.mark.more
                yield pytest.param((mode, strategy, policy), marks=marks, id=f"{mode}-{strategy}-{policy}")


@pytest.fixture(params=cases())
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Life]:
    mode, strategy, policy = request.param
    options = {"mode": mode} if mode == "index" else {"mode": mode, "schema_policy": policy}
    world = World.in_folder(tmp_path, no_session, **options)
    world.lake_options = {"attach_options": {"encrypted": strategy == "insert"}}
    with jobs_here(), pytest.MonkeyPatch.context() as patch:
        if mode == "index":
            patch.setattr("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", REGISTRATIONS[strategy])
            if strategy == "extension":  # it refuses columns without a type
                patch.setattr(schema_changes, "CHANGES", [c for c in schema_changes.CHANGES if c.has_types])
        else:
            patch.setattr("lake_assets.lake.commit.strategy.strategies_of", lambda *_: (STRATEGIES[strategy],))
        yield lived(mode, policy, world)


def lived(mode: Mode, policy: SchemaPolicy, world: World) -> Life:
    keys = [UNTOUCHED, *(change.key for change in schema_changes.CHANGES)]
    world.land(text_of(UNTOUCHED), schema_changes.CHANGES[0].first(), "1.parquet")
    assert [outcome.error for outcome in run(world, [UNTOUCHED])] == [None]  # its columns are those of the table
    for key in keys[1:]:
        world.land(text_of(key), schema_changes.CHANGES[0].first(), "1.parquet")
    assert {outcome.error for outcome in run(world, keys[1:])} == {None}
    columns, snapshot = described(world), world.ledger()[0].snapshot_id
    assert snapshot is not None
    for change in schema_changes.CHANGES:
        # A refresh has the file of now, and the other modes add one.
        world.land(text_of(change.key), change.later(), "1.parquet" if mode == "replace" else "2.parquet")
    # In mode index one at a time: the extension registers all files of a commit if the direct strategy cannot do so.
    groups = [[key] for key in keys[1:]] if mode == "index" else [keys[1:]]
    outcomes = {str(outcome.partition.values[0]): outcome for group in groups for outcome in run(world, group)}
    after = described(world)
    return Life(
        mode, policy, world, outcomes, columns, after, snapshot, rows(world), rows(world, f"AT (VERSION => {snapshot})")
    )


def text_of(key: str) -> str:
    return f"region={key},date=2026-02-11"


def run(world: World, keys: list[str]) -> list[Outcome]:
    partitions = [world.partition(text_of(key)) for key in keys]
    if world.stream.config.mode == "index":
        return list(index_all(world.stream, partitions))
    return list(ingest_all(world.stream, partitions, world.sessions))


def described(world: World) -> dict[str, str]:
    return {name: kind for name, kind, *_ in world.query("DESCRIBE lake.sales")}


def rows(world: World, at: str = "") -> dict[str, list[dict[str, Any]]]:
    with world.reader() as client:
        client.execute(f"SELECT * FROM lake.sales {at} ORDER BY region, rowid")
        names = [column[0] for column in client.description or ()]
        result: dict[str, list[dict[str, Any]]] = {}
        for row in client.fetchall():
            values = dict(zip(names, row, strict=True))
            result.setdefault(values["region"], []).append(values)
    return result


def test_every_change_does_what_the_docs_say_and_to_nothing_else(life: Life) -> None:
    for change in schema_changes.CHANGES:
        assert list(wrong(life, change)) == [], change.title
    assert_all_other_values_are_those_that_were_landed(life)
    assert_the_snapshot_of_before_has_the_values_of_before(life)


def wrong(life: Life, change: Change) -> Iterator[str]:
    """Where a change did something else than its cell of the table says."""
    cell = change.cell(life.mode, life.policy)
    error = life.outcomes[change.key].error
    kept, found = change.values(cell)
    older = [] if life.mode == "replace" else [kept]
    wanted = [kept] if cell == "refused" else [*older, found]
    if (error is not None) != (cell == "refused"):
        yield f"{cell}, and the error is {error}"
    if error is not None and not (isinstance(error, SchemaError) and f"'{change.key}" in str(error).lower()):
        yield f"the error does not name the column: {error}"
    changed = life.columns_after.get(change.key) != life.columns.get(change.key)
    if cell != "typed" and changed != (cell in {"added", "widened"}):
        yield f"{cell}, and the column was {'' if changed else 'not '}changed"
    if change.key not in life.columns_after:
        if not (change.before is None or change.before.null_count):
            yield "the column is gone"
    elif (values := [row[change.key] for row in life.rows[change.key]]) != wanted:
        yield f"{cell}, and the values are {values}, not {wanted}"


def assert_all_other_values_are_those_that_were_landed(life: Life) -> None:
    kept = {change.key: change.values(change.cell(life.mode, life.policy))[0] for change in schema_changes.CHANGES}
    for partition, found in life.rows.items():
        for row in found:
            assert {
                key: value for key, value in row.items() if key in kept and key != partition and value != kept[key]
            } == {}, partition


def assert_the_snapshot_of_before_has_the_values_of_before(life: Life) -> None:
    first = schema_changes.CHANGES[0].first().to_pylist()[0]
    first["in_map"] = dict(first["in_map"])
    assert life.rows_then.keys() == {UNTOUCHED, *(change.key for change in schema_changes.CHANGES)}
    for found in life.rows_then.values():
        (row,) = found
        assert {key: value for key, value in row.items() if key not in {"region", "date"}} == {
            key: value for key, value in first.items() if key in life.columns
        }


def test_the_docs_have_this_table_and_say_what_its_words_mean() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert "\n<!-- changes -->\n" in page
    for cell, meaning in MEANINGS.items():
        assert f"| {cell} | {meaning} |" in page
