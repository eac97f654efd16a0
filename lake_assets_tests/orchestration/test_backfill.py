"""A backfill of a stream and of assets downstream: iterations of Dagster's daemon, with its runs in this process."""

import datetime as dt
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests_with_backfill_policies
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.execution.api import execute_run
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._utils.hosted_user_process import recon_job_from_origin

from lake_assets.orchestration.assets.stream_asset import stream_asset
from lake_assets.orchestration.translator import specs_of
from lake_assets_tests.orchestration.check_runs import PARTITIONS
from lake_assets_tests.orchestration.instances import storages
from lake_assets_tests.world import NW, World, sales

ASSETS = ("sales", "each", "later", "days", "whole")
KEYS = ["2026-02-11|NW", "2026-02-11|SW", "2026-02-12|NW", "2026-02-12|SW"]
DEFINITIONS = """
import dagster as dg
from lake_assets.api import open_stream
from lake_assets.orchestration.build import build_definitions
from lake_assets.orchestration.partition_keys import partitions_def

keys = partitions_def(open_stream("{file}", "sales"))

@dg.asset(deps=["sales"], partitions_def=keys)  # a run for each partition
def each() -> None: ...

@dg.asset(deps=[each], partitions_def=keys)
def later() -> None: ...

@dg.asset(deps=["sales"], partitions_def=dg.DailyPartitionsDefinition("2026-02-11", end_date="2026-02-13"))
def days() -> None: ...

@dg.asset(deps=["sales"])
def whole() -> None: ...

defs = dg.Definitions.merge(build_definitions("{file}"), dg.Definitions(assets=[each, later, days, whole]))
"""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance that launches no run by itself."""
    test_utils = {"module": "dagster._core.test_utils", "class": "MockedRunLauncher"}
    coordinator = {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"}
    with dg.instance_for_test({"run_launcher": test_utils, "run_coordinator": coordinator} | storages()) as instance:
        yield instance


def backfilled(world: World, instance: dg.DagsterInstance, folder: Path) -> BulkActionStatus:
    """The end of a backfill of all partitions of all assets."""
    world.options = {"mode": "index", "partitions": PARTITIONS}
    (folder / "defs.py").write_text(DEFINITIONS.format(file=world.config_file(folder)))
    defs = LoadableTargetOrigin(executable_path=sys.executable, python_file=str(folder / "defs.py"), attribute="defs")
    location = InProcessCodeLocationOrigin(defs, location_name="shop")
    with create_test_daemon_workspace_context(InProcessWorkspaceLoadTarget(location), instance) as workspace:
        instance.add_backfill(
            PartitionBackfill.from_asset_partitions(
                backfill_id="all",
                asset_graph=workspace.create_request_context().asset_graph,
                partition_names=KEYS,
                asset_selection=[dg.AssetKey(name) for name in ASSETS],
                backfill_timestamp=dt.datetime.now(dt.UTC).timestamp(),
                tags={},
                dynamic_partitions_store=instance,
                all_partitions=False,
                title=None,
                description=None,
                run_config=None,
            )
        )
        for _ in range(10):
            list(execute_backfill_iteration(workspace, logging.getLogger(__name__)))
            for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING])):
                assert run.job_code_origin is not None
                execute_run(recon_job_from_origin(run.job_code_origin), run, instance)
            backfill = instance.get_backfill("all")
            assert backfill is not None
            if backfill.status != BulkActionStatus.REQUESTED:
                return backfill.status
    pytest.fail("the backfill does not end")


@pytest.mark.more
@pytest.mark.parametrize("landed", [True, False])
def test_what_is_downstream_of_partitions_that_never_landed_is_left_out_too(
    local_world: World, instance: dg.DagsterInstance, tmp_path: Path, landed: bool
) -> None:
    Path(local_world.source["path"]).mkdir()
    if landed:
        local_world.land(NW, sales(1))

    status = backfilled(local_world, instance, tmp_path)

    records = {name: instance.fetch_materializations(dg.AssetKey(name), limit=10).records for name in ASSETS}
    materialized = {name: [record.partition_key for record in found] for name, found in records.items() if found}
    of_nw = {name: ["2026-02-11|NW"] for name in ("sales", "each", "later")} | {"days": ["2026-02-11"], "whole": [None]}
    assert materialized == (of_nw if landed else {})
    assert status == BulkActionStatus.COMPLETED_SUCCESS


DAYS = {"date": {"type": "date", "start": "2026-02-01", "end": "2026-02-10"}}
OTHER = "One run for {}each region, or each date if these are fewer, and unbroken range of the other"
DIALOG = ' Dagster\'s dialog says "a single run" of one range.'


@pytest.mark.parametrize(
    ("regions", "options", "says"),
    [
        pytest.param(30, {}, f"{OTHER.format('')}. All 300 partitions of {{}} are 10 runs.{DIALOG}", id="fewer dates"),
        pytest.param(3, {}, f"{OTHER.format('')}. All 30 partitions of {{}} are 3 runs.{DIALOG}", id="fewer regions"),
        pytest.param(
            3,
            {"max_partitions_per_run": 4},
            f"{OTHER.format('up to 4 partitions of ')}. All 30 partitions of {{}} are 9 runs.",
            id="limit",
        ),
        pytest.param(
            0, {}, "One run for each unbroken range of date. All 10 partitions of {} are 1 run.", id="one column"
        ),
        pytest.param(
            0,
            {"max_partitions_per_run": 4},
            "One run for up to 4 partitions of each unbroken range of date. All 10 partitions of {} are 3 runs.",
            id="one column and a limit",
        ),
        pytest.param(None, {}, f"{OTHER.format('')}.{DIALOG}", id="unknown regions"),
    ],
)
def test_the_asset_says_how_many_runs_dagster_makes_of_a_backfill(
    local_world: World, regions: int | None, options: dict[str, Any], says: str
) -> None:
    region = {} if regions is None else {"values": [f"r{number}" for number in range(regions)]}
    local_world.options = options | {"partitions": DAYS if regions == 0 else {"region": region} | DAYS}
    asset = stream_asset(specs_of(local_world.stream))

    (spec,) = asset.specs
    assert spec.metadata["backfill"].value == says.format(dt.datetime.now(dt.UTC).date())
    if regions is not None:
        assert asset.partitions_def is not None
        keys = {AssetKeyPartitionKey(asset.key, key) for key in asset.partitions_def.get_partition_keys()}
        graph = dg.Definitions(
            [asset], resources={"pyspark": dg.ResourceDefinition.none_resource()}
        ).resolve_asset_graph()
        with dg.instance_for_test() as instance:
            requests = build_run_requests_with_backfill_policies(keys, graph, instance)
        assert f"are {len(requests)} run" in says
