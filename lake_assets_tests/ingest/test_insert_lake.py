"""Compaction, clean-up, checks, plans and refusals of a lake that is written by INSERT."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from lake_assets.base.errors import CatalogError
from lake_assets.base.events import ended_by
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.commit.change import Change, Written
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.spark.task.job import DataFile
from lake_assets.spark.task.write import Staging
from lake_assets.storage.store import Store
from lake_assets.upkeep.checks.check_run import checks_of
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.doctor import examine
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.faults.writer import make_table, put, write
from lake_assets_tests.ingest.encrypted import ENCRYPTED, NULL, ODD, assert_secret, nobody, stored, telling
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.upkeep.maintenance.test_compaction import scatter
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world import plan as plan_of


@pytest.mark.more
def test_compaction_reads_and_writes_without_spark(local_encrypted: World) -> None:
    table = telling(50)
    for text in (NW, NULL, ODD, SW):
        local_encrypted.land(text, table)
        local_encrypted.ingest(text)
    for text in (NW, NULL, ODD):
        scatter(local_encrypted, text, 3)
    before = local_encrypted.query("SELECT * FROM lake.sales ORDER BY ALL")

    done = compact(local_encrypted.stream, 3, nobody)

    assert [(item.files_before, item.files_after, item.why) for item in done] == [(4, 1, None)] * 3
    assert local_encrypted.query("SELECT * FROM lake.sales ORDER BY ALL") == before
    assert_secret(local_encrypted, table)
    row = local_encrypted.ledger(NW)[0]
    assert (row.mode, row.row_count, row.rows_before, row.files_written) == ("compact", 53, 53, 1)
    assert compact(local_encrypted.stream, 3, nobody) == []
    assert local_encrypted.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_a_compaction_leaves_a_partition_that_was_ingested_meanwhile(local_encrypted: World) -> None:
    """It would have the fingerprint of the old rows."""
    local_encrypted.commit(NW, 1)
    scatter(local_encrypted, NW, 2)
    local_encrypted.land(NW, sales(7, 8))

    def meanwhile() -> None:
        """Called after the fingerprint is read and before the rows are."""
        with ended_by(lambda: None):
            local_encrypted.ingest(NW)

    with ended_by(meanwhile):
        (left,) = compact(local_encrypted.stream, 3, nobody)

    assert left.files_after is None
    assert "was committed again meanwhile" in str(left.why)
    assert local_encrypted.totals() == [7, 8]
    assert [row.mode for row in local_encrypted.ledger(NW)] == ["replace", "replace"]
    assert local_encrypted.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_expired_files_are_deleted_and_checks_pass_until_a_file_is_missing(local_encrypted: World) -> None:
    local_encrypted.commit(NW, 1)
    local_encrypted.commit(NW, 2)

    done = local_encrypted.tidy(30)

    assert len(done.expired) > 1
    assert len(done.cleaned.deleted) == 1
    assert local_encrypted.totals() == [2]
    stream = local_encrypted.stream
    assert [name for name in checks_of(stream) if not run_check(stream, name, Scope()).passed] == []
    ((key, _),) = stored(local_encrypted)
    Store(stream.lake_config.own_storage).delete((key,))
    assert not run_check(stream, "data_files", Scope()).passed


def test_the_plan_has_the_staged_files_and_the_insert(local_encrypted: World) -> None:
    local_encrypted.land(NW, sales(1))

    plan = plan_of(local_encrypted.stream, local_encrypted.partition(NW))

    delete, insert = plan.statements
    assert delete[0].startswith('DELETE FROM "lake"."main"."sales"')
    assert insert[0].startswith('INSERT INTO "lake"."main"."sales"')
    assert plan.destination == f"{local_encrypted.storage['path']}/main/sales/"
    assert f"{local_encrypted.storage['path']}/_staging/<random>/<run id>-<random>.parquet" in insert[1][2]  # type: ignore[operator]


def test_a_plain_file_is_refused_by_every_other_strategy(local_encrypted: World) -> None:
    make_table(local_encrypted)
    row = write(local_encrypted, SW)
    file = put(local_encrypted, NW, sales(1))
    stream = local_encrypted.stream
    change = Change(stream.table, local_encrypted.partition(NW), row, Written([DataFile(file, 1, 0)]))
    with stream.lake.open() as lake:
        with pytest.raises(NotDirectError, match="only through INSERT"):
            replace_directly(lake, [change])
        with pytest.raises(CatalogError, match="only through INSERT"):
            replace_by_extension(lake, [change])
    assert local_encrypted.totals(NW) == []


@pytest.mark.more
@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (ENCRYPTED, {}, r"the lake is encrypted.*attach_options: \{encrypted: true\}"),
        ({}, ENCRYPTED, "was made without encryption.*attach_options"),
    ],
)
def test_a_lake_stays_encrypted_or_not(
    local_world: World, first: dict[str, Any], then: dict[str, Any], says: str
) -> None:
    local_world.lake_options = first
    local_world.commit(NW, 1)
    local_world.lake_options = then

    with pytest.raises(CatalogError, match=says):
        local_world.ingest(NW, force=True)


@pytest.mark.more
def test_rows_can_be_staged_in_another_place(
    local_encrypted: World, s3_location: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    local_encrypted.lake_options = ENCRYPTED | {"staging": s3_location()}
    local_encrypted.land(NW, sales(1, 2))
    seen: list[str] = []
    stage = Staging.clear

    def clear(self: Staging) -> None:
        seen.extend(obj.uri for obj in Store(self.storage).list(self.folder))
        stage(self)

    with mock.patch.object(Staging, "clear", clear):
        local_encrypted.ingest(NW)

    bucket = Store(local_encrypted.stream.lake_config.staging_storage)
    assert local_encrypted.totals() == [1, 2]
    assert len(seen) == 1
    assert seen[0].startswith(f"{bucket.root}/_staging/")
    assert bucket.list("_staging/") == ()
    assert not (tmp_path / "data" / "_staging").exists()
    findings = {finding.subject: finding for finding in examine(local_encrypted.config_file(tmp_path))}
    assert findings["staging of test"].status == "ok"


def test_the_first_value_gives_a_column_its_type(local_encrypted: World) -> None:
    local_encrypted.land(NW, pa.table({"id": [1], "note": pa.nulls(1)}))
    local_encrypted.ingest(NW)
    local_encrypted.land(SW, pa.table({"id": [2], "note": ["x"]}))

    local_encrypted.ingest(SW)

    assert local_encrypted.query("SELECT id, note FROM lake.sales ORDER BY id") == [(1, None), (2, "x")]
