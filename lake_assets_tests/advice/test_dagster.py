"""Advice of errors in Dagster: definitions, partition keys, assets downstream, queues and syncs."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from dev.servers.moto import KEYS, Moto, moto
from lake_assets import LakeIOManager, LakeResource, build_definitions, partitions_def
from lake_assets.base.errors import LakeAssetsError
from lake_assets.config.sections import SqsSensor
from lake_assets.orchestration.partition_keys import StreamKeys
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.orchestration.translator import LakeAssetsTranslator, LakeAssetsTranslatorData
from lake_assets_tests.advice.cases import Case, Cases, Steps, Verb, follow
from lake_assets_tests.orchestration.in_process import REGIONS, failure_of
from lake_assets_tests.orchestration.instances import in_memory
from lake_assets_tests.orchestration.test_restore_job import run as run_restore
from lake_assets_tests.upkeep.history.test_restore import ingested
from lake_assets_tests.world import NW, SW, World

__all__ = ["moto"]

case = Cases()
in_seconds = Cases(pytest.mark.more)
DAYS = dg.DailyPartitionsDefinition("2026-02-11", end_date="2026-02-14")


# Definitions.


@case
def streams_that_share_dynamic_partitions_are_renamed_or_get_values(local_world: World) -> Steps:
    sales = local_world.document["streams"]["sales"] | {"partitions": {"eu_region": {}}}
    other = sales | {"partitions": {"region": {}}, "destination": {"table": "other"}}

    def defined(**streams: dict[str, Any]) -> None:
        local_world.sections = {"streams": streams}
        dg.Definitions.validate_loadable(build_definitions(local_world.config))

    attempt = partial(defined, sales=sales, sales_eu=other)
    yield attempt, "rename one of the streams | give one of the columns its values"
    yield partial(defined, sales=sales, restore_sales=other), "rename one of them"
    defined(sales=sales, sales_of_eu=other)
    defined(sales=sales, sales_eu=other | {"partitions": {"region": {"values": ["NW"]}}})
    return None


class Translator(LakeAssetsTranslator):
    """Adds attributes to the specs of tables."""

    def __init__(self, **attributes: Any) -> None:
        self._attributes = attributes

    def get_asset_spec(self, data: LakeAssetsTranslatorData) -> dg.AssetSpec:
        spec = super().get_asset_spec(data)
        return spec.replace_attributes(**self._attributes) if data.kind == "table" else spec


@case
def a_translator_leaves_the_partitions_to_the_config(local_world: World) -> Steps:
    wrong, right = (Translator(group_name="shop", **options) for options in ({"partitions_def": DAYS}, {}))
    yield partial(build_definitions, local_world.config, translator=wrong), "leave it out. The config defines"
    build_definitions(local_world.config, translator=right)
    return None


# Partition keys.


@case
def a_key_has_one_value_for_each_column_as_in_a_path(local_world: World) -> Steps:
    keys = StreamKeys(local_world.stream)
    yield partial(keys.partition, "NW"), "write one value for each, joined by "
    assert keys.partition("2026-02-11|NW").texts() == {"region": "NW", "date": "2026-02-11"}
    yield partial(keys.partition, "2026-02-11|N|W"), " inside a value as %7C)"
    assert keys.partition("2026-02-11|N%7CW").texts()["region"] == "N|W"
    yield partial(keys.partition, "2026-02-11|N,W"), "2026-02-11|N%2CW"
    yield partial(keys.partition, "2026-02-11|N,W"), "use the key "
    assert keys.partition("2026-02-11|N%2CW").texts()["region"] == "N,W"
    return None


@case
def a_key_of_several_partitions_is_narrowed(local_world: World) -> Steps:
    local_world.options = {"partitions": {"date": {"type": "date", "start": "2026-01-01", "keys": "month"}}}
    yield partial(StreamKeys(local_world.stream).partition, "2026-02"), "name one partition"
    assert local_world.stream.config.partition("date=2026-02-28").texts() == {"date": "2026-02-28"}
    return None


# Restores and syncs.


def restored(world: World, **config: Any) -> None:
    """Run the job that restores NW."""
    if not (done := run_restore(world, **config)).success:
        raise LakeAssetsError("the run failed:", failure_of(done))


@case
def a_hold_is_released_without_a_snapshot(local_world: World) -> Steps:
    first = ingested(local_world, 1)
    ingested(local_world, 2)
    restored(local_world, snapshot=first, hold=True)
    yield partial(restored, local_world, release=True, snapshot=first), "launch it without snapshot, hold and dry_run"
    restored(local_world, release=True)
    local_world.ingest(NW)
    assert local_world.totals() == [2]
    return None


@case
def a_run_that_names_no_snapshot_is_given_one_of_the_history(local_world: World) -> Steps:
    first = ingested(local_world, 1)
    ingested(local_world, 2)
    yield partial(restored, local_world), "set it to a number of the history below | set release: true to end a hold"
    yield partial(restored, local_world, partition="", snapshot=first), "set it to one of the stream | to its key"
    restored(local_world, snapshot=first, hold=True)
    assert local_world.totals() == [1]
    restored(local_world, release=True, partition="2026-02-11|NW")
    return None


# Assets downstream.


def materialized(world: World, asset: dg.AssetsDefinition, key: str | None = None, **resources: Any) -> list[float]:
    """Materialize an asset beside those of the config; the totals that it returns in its metadata."""
    own = dg.Definitions(assets=[asset], resources=resources)
    return run_job(dg.Definitions.merge(build_definitions(world.config), own), asset, key)


def run_job(definitions: dg.Definitions, asset: dg.AssetsDefinition, key: str | None) -> list[float]:
    job = definitions.resolve_implicit_global_asset_job_def()
    with in_memory() as instance:
        done = job.execute_in_process(instance=instance, partition_key=key, asset_selection=[asset.key])
        (event,) = done.get_asset_materialization_events()
        metadata: Mapping[str, Any] = event.materialization.metadata
        return sorted(metadata["totals"].value) if "totals" in metadata else []


def totals(rows: pa.Table) -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"totals": rows["total"].to_pylist()})


def lake_of(world: World, folder: Path) -> LakeResource:
    """The resource of the world's config, whose table has rows of NW and SW."""
    world.options = REGIONS
    world.commit(NW, 1)
    world.commit(SW, 2)
    return LakeResource(config=str(world.config_file(folder)))


def reading(*arguments: str, **options: Any) -> dg.AssetsDefinition:
    """An asset that reads rows by the resource."""

    def revenue(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
        return totals(lake.read(context, *arguments))

    asset: dg.AssetsDefinition = dg.asset(**options)(revenue)
    return asset


@case
def an_asset_depends_on_the_stream_that_it_reads(local_world: World, tmp_path: Path) -> Steps:
    lake = lake_of(local_world, tmp_path)
    read = partial(materialized, local_world, reading(deps=["other"]), lake=lake)
    yield read, 'add it, as in deps=[" | name the key of its asset in asset_keys'
    assert materialized(local_world, reading(deps=["sales"]), lake=lake) == [1, 2]
    renamed = LakeResource(config=lake.config, asset_keys={"sales": "other"})
    spec = dg.AssetSpec("other", partitions_def=partitions_def(local_world.stream))
    asset = reading(deps=["other"])
    assert run_job(dg.Definitions([asset, spec], resources={"lake": renamed}), asset, None) == [1, 2]
    return None


@case
def an_asset_that_depends_on_several_streams_names_one(local_world: World, tmp_path: Path) -> Steps:
    other = local_world.document["streams"]["sales"] | REGIONS | {"destination": {"table": "other"}}
    local_world.sections = {"streams": {"sales": local_world.document["streams"]["sales"] | REGIONS, "other": other}}
    lake, options = lake_of(local_world, tmp_path), {"deps": ["sales", "other"]}
    yield partial(materialized, local_world, reading(**options), lake=lake), 'name one: read(context, "'
    assert materialized(local_world, reading("sales", **options), lake=lake) == [1, 2]
    return None


@case
def rows_are_read_as_one_of_the_classes(local_world: World, tmp_path: Path) -> Steps:
    lake_of(local_world, tmp_path)

    def asset(kind: type) -> dg.AssetsDefinition:
        def revenue(sales):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - set below
            return totals(sales)

        revenue.__annotations__ = {"return": dg.MaterializeResult, "sales": kind}
        made: dg.AssetsDefinition = dg.asset(revenue)
        return made

    yield partial(materialized, local_world, asset(dict)), "use one of "
    assert materialized(local_world, asset(pa.Table)) == [1, 2]
    return None


@case
def an_asset_of_another_code_location_has_the_key_of_a_stream(local_world: World, tmp_path: Path) -> Steps:
    lake = lake_of(local_world, tmp_path)

    @dg.asset(ins={"rows": dg.AssetIn("shop", input_manager_key="lake_io")})
    def revenue(rows: pa.Table) -> dg.MaterializeResult[None]:
        return totals(rows)

    def read(**asset_keys: str) -> list[float]:
        spec = dg.AssetSpec("shop", partitions_def=partitions_def(local_world.stream))
        io = LakeIOManager(config=lake.config, asset_keys=asset_keys)
        return run_job(dg.Definitions([revenue, spec], resources={"lake_io": io}), revenue, None)

    yield read, ". Name another key of a stream in asset_keys"
    assert read(sales="shop") == [1, 2]
    return None


@case
def an_asset_of_another_code_location_has_partitions(local_world: World, tmp_path: Path) -> Steps:
    lake, asset = lake_of(local_world, tmp_path), reading(deps=["sales"], partitions_def=DAYS)

    def read(spec: dg.AssetSpec) -> list[float]:
        return run_job(dg.Definitions([asset, spec], resources={"lake": lake}), asset, "2026-02-11")

    yield partial(read, dg.AssetSpec("sales")), ', partitions_def=partitions_def(open_stream("lake.yaml", "'
    assert read(dg.AssetSpec("sales", partitions_def=partitions_def(local_world.stream))) == [1, 2]
    return None


@case
def an_asset_that_returns_a_value_has_an_io_manager_of_its_own(local_world: World, tmp_path: Path) -> Steps:
    lake_io = LakeIOManager(config=lake_of(local_world, tmp_path).config)

    @dg.asset(io_manager_key="lake_io")
    def value() -> int:
        return 1

    @dg.asset(io_manager_key="lake_io")
    def nothing():  # type: ignore[no-untyped-def]  # noqa: ANN202 - as users leave it out
        return None

    for asset in (value, nothing):
        read = partial(materialized, local_world, asset, lake_io=lake_io)
        yield read, "give the asset another io_manager_key | annotate it with -> None"

    @dg.asset(name="value")
    def with_another() -> int:
        return 1

    @dg.asset(name="nothing", io_manager_key="lake_io")
    def annotated() -> None:
        return None

    for asset in (with_another, annotated):
        assert materialized(local_world, asset, lake_io=lake_io) == []
    return None


# Queues.


def received(**options: Any) -> int:
    """How many messages a tick of the sensor receives."""
    return len(Queue(SqsSensor(type="sqs", wait=0, **options)).receive())


@in_seconds
def a_queue_that_does_not_exist_is_created_or_corrected(moto: Moto) -> Steps:
    url = moto.new_queue()
    yield partial(received, queue_url=f"{url}-none", **KEYS), "create this queue | correct `queue_url` and `region`"
    assert received(queue_url=url, **KEYS) == 0
    moto.client("sqs").create_queue(QueueName=f"{url.rpartition('/')[2]}-none")
    assert received(queue_url=f"{url}-none", **KEYS) == 0
    return None


@in_seconds
def a_queue_that_is_away_has_another_address(moto: Moto) -> Steps:
    url = moto.new_queue()
    away = partial(received, queue_url=url, **KEYS, endpoint="http://127.0.0.1:9")
    yield away, "correct queue_url or endpoint"
    assert received(queue_url=url, **KEYS) == 0
    return None


@in_seconds
def a_queue_gives_its_messages_to_a_user_with_the_rights(moto: Moto) -> Steps:
    url, iam = moto.new_queue(), moto.client("iam")
    iam.create_user(UserName="sensor")
    key = iam.create_access_key(UserName="sensor")["AccessKey"]
    moto.send(url, "{}")
    keys = {"key_id": key["AccessKeyId"], "secret": key["SecretAccessKey"], "region": KEYS["region"]}
    receive: Verb = moto.by_policies(lambda: partial(received, queue_url=url, **keys))
    wrong: Verb = moto.by_policies(lambda: partial(received, queue_url=url, **keys | {"secret": "wrong"}))
    yield partial(moto.by_policies, wrong), "correct key_id and secret"
    yield partial(moto.by_policies, receive), "let the role of the credential chain have"
    rights = [{"Effect": "Allow", "Action": ["sqs:ReceiveMessage", "sqs:DeleteMessage"], "Resource": "*"}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": rights})
    iam.put_user_policy(UserName="sensor", PolicyName="p", PolicyDocument=policy)
    assert moto.by_policies(receive) == 1
    return None


@pytest.mark.parametrize("steps", [*case, *in_seconds])
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)
