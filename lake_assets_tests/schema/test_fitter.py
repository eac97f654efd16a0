import datetime as dt
import decimal

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionType
from lake_assets.schema.arrow_types import without_views
from lake_assets.schema.column_rules import REGISTERED, Rules
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.schema.misfits import widens

NW = Partition.of(
    (PartitionColumn("region", "string"), PartitionColumn("date", "date")), {"region": "NW", "date": "2026-02-11"}
)


def fit(batch: pa.RecordBatch, target: pa.Schema, partition: Partition = NW) -> pa.RecordBatch:
    fitter = Fitter(batch.schema, Target(target), partition, "the object x")
    return fitter.fit(batch.select([*fitter.columns, *fitter.partition_columns]))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.uint8(), pa.int16()),
        (pa.decimal128(9, 2), pa.decimal128(12, 3)),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.large_string(), pa.string()),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time64("us")),
        (pa.null(), pa.string()),
        (pa.json_(), pa.string()),
    ],
    ids=str,
)
def test_a_type_that_the_target_can_hold_fits(source: pa.DataType, target: pa.DataType) -> None:
    assert widens(source, target)
    batch = pa.RecordBatch.from_arrays([pa.nulls(2, source)], ["x"])

    assert fit(batch, pa.schema([("x", target)])).schema.field("x").type == target


INNER = pa.struct([("n", pa.int32())])
NESTED = pa.struct([("x", pa.int8()), ("deep", pa.list_(pa.map_(pa.string(), INNER)))])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8()), "field 'c.value' of the object x is int64"),
        (pa.map_(pa.string(), INNER), pa.map_(pa.int8(), INNER), "field 'c.key' of the object x is string"),
        (
            pa.struct([("x", pa.int8()), ("deep", pa.list_(pa.map_(pa.string(), pa.struct([("m", pa.int32())]))))]),
            NESTED,
            "it lacks 'c.deep.element.value.n' and it has 'c.deep.element.value.m':",
        ),
        (pa.struct([("n", pa.int32()), ("N", pa.int32())]), INNER, "it has 'c.N':"),
    ],
    ids=str,
)
def test_a_part_of_a_column_that_does_not_fit_is_named(source: pa.DataType, target: pa.DataType, message: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(2, source)], ["C"])

    with pytest.raises(SchemaError, match=message):
        Fitter(batch.schema, Target(pa.schema([("c", target)]), REGISTERED), NW, "the object x")


def test_columns_and_fields_that_the_table_lacks_are_left_out_if_the_policy_says_so() -> None:
    rows = [{"c": [{"n": 1, "more": "a"}, None], "more": 1}, {"c": None, "more": 2}]
    data_type = pa.list_(pa.struct([("more", pa.string()), ("n", pa.int8())]))
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([("more", pa.int8()), ("c", data_type)]))
    target = pa.schema([("c", pa.list_(INNER))])
    fitter = Fitter(batch.schema, Target(target, Rules("ignore_extra")), NW, "the object x")

    assert fitter.columns == ["c"]
    assert fitter.fit(batch.select(["c"])).to_pylist() == [{"c": [{"n": 1}, None]}, {"c": None}]
    others = {pa.struct([("m", INNER)]): "it lacks 'c.element.n'", pa.string(): "field 'c.element' of"}
    for other, message in others.items():
        source = pa.schema([("c", pa.list_(other))])
        with pytest.raises(SchemaError, match=message):
            Fitter(source, Target(target, Rules("ignore_extra")), NW, "the object x")


def test_names_that_sql_cannot_tell_apart_are_refused() -> None:
    batch = pa.record_batch({"total": [1.0], "Total": [2.0]})
    with pytest.raises(SchemaError, match=r"the object x has the columns 'total' and 'Total', which SQL cannot"):
        fit(batch, pa.schema([("total", pa.float64())]))


def test_a_value_between_the_units_is_refused_and_not_rounded() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.timestamp("ns"))], ["x"])

    with pytest.raises(SchemaError, match="'x' of the object x has a value"):
        fit(batch, pa.schema([("x", pa.timestamp("us"))]))


@pytest.mark.parametrize(
    ("kind", "text", "bad"),
    [
        ("date", "2026-02-11", pa.array([dt.datetime(2026, 2, 11, 1)])),  # noqa: DTZ001 - without a zone
        ("integer", "7", pa.array([7.5])),
        ("integer", "300", pa.array([30], pa.int8())),
    ],
    ids=str,
)
def test_a_row_of_another_partition_is_refused(kind: PartitionType, text: str, bad: pa.Array) -> None:
    column = PartitionColumn("key", kind)

    for wrong in (bad, pa.nulls(1, bad.type)):
        with pytest.raises(SchemaError, match=f"belongs to key={text}"):
            checked(column, text, wrong)


def chosen(column: PartitionColumn, text: str, values: pa.Array) -> list[int]:
    """The numbers of the rows that are selected for a partition."""
    source = pa.RecordBatch.from_arrays([pa.array(range(len(values))), values], ["n", "Key"])
    partition = Partition.of([column], {column.name: text})
    fitter = Fitter(
        source.schema, Target(pa.schema([("n", pa.int64())]), Rules(selects=True)), partition, "the object x"
    )
    assert fitter.partition_columns == ["Key"]
    numbers: list[int] = fitter.fit(source).column("n").to_pylist()
    return numbers


def checked(column: PartitionColumn, text: str, values: pa.Array) -> pa.RecordBatch:
    """The rows, if all of them are the partition's."""
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(values))), values], ["n", "Key"])
    return fit(batch, pa.schema([("n", pa.int64())]), Partition.of([column], {column.name: text}))


MIDNIGHT, NOON = dt.datetime(2026, 2, 11), dt.datetime(2026, 2, 11, 12)  # noqa: DTZ001 - without a zone


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        ("string", "NW", pa.array(["NW", "SW", None, "NW "])),
        ("string", "NW", pa.array(["NW", "SW", None]).dictionary_encode()),
        ("string", "7", pa.array([7, 70, None], pa.int8())),
        ("string", "2026-02-11", pa.array([MIDNIGHT.date(), dt.date(2026, 2, 12)])),
        ("integer", "7", pa.array([7, 8, None], pa.uint8())),
        ("integer", "7", pa.array(["7", "8", None])),
        ("integer", "7", pa.array([7.0, 8.0, None])),
        ("integer", "7", pa.array([decimal.Decimal("7.00"), decimal.Decimal("8.00")])),
        ("year", "2026", pa.array([2026, 2025, None], pa.int32())),
        ("year", "0033", pa.array([33, 3])),
        ("month", "2026-02", pa.array(["2026-02", "2026-03", None])),
        ("date", "2026-02-11", pa.array([MIDNIGHT.date(), dt.date(2026, 2, 12), None])),
        ("date", "2026-02-11", pa.array([MIDNIGHT.date(), dt.date(2026, 2, 12), None]).cast(pa.date64())),
        ("date", "2026-02-11", pa.array(["2026-02-11", "2026-02-12", None])),
        ("date", "2026-02-11", pa.array([MIDNIGHT, MIDNIGHT + dt.timedelta(days=1), None])),
        ("hour", "2026-02-11-13", pa.array(["2026-02-11-13", "2026-02-11-14"])),
        ("string", "__HIVE_DEFAULT_PARTITION__", pa.array([None, "", "x"])),
        ("integer", "__HIVE_DEFAULT_PARTITION__", pa.array([None, 0])),
        ("date", "__HIVE_DEFAULT_PARTITION__", pa.array([None, "2026-02-11"])),
    ],
    ids=str,
)
def test_the_rows_of_a_value_are_selected_from_any_type_and_others_refused(
    kind: PartitionType, text: str, values: pa.Array
) -> None:
    assert chosen(PartitionColumn("key", kind, in_rows=True), text, values) == [0]
    column = PartitionColumn("key", kind)
    assert checked(column, text, values[:1]).to_pylist() == [{"n": 0}]
    for other in range(1, len(values)):
        with pytest.raises(SchemaError, match="belongs to key="):
            checked(column, text, values.take([0, other]))


def test_some_or_none_of_the_rows_may_be_the_partitions() -> None:
    column = PartitionColumn("key", "integer", in_rows=True)
    assert chosen(column, "7", pa.array(["07", "8"])) == [0]
    assert chosen(column, "7", pa.nulls(3)) == []
    assert chosen(column, "7", pa.array([8, None])) == []


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("integer", pa.array(["seven"]), "has a value that is not a int64"),
        ("date", pa.array(["11.2.2026"]), "has a value that is not a date32"),
        ("date", pa.array([NOON]), r"has a value that is not a date32\[day\]: a time of day:"),
        ("date", pa.array([NOON], pa.timestamp("us", "UTC")), "cannot hold a partition of type date"),
        ("date", pa.array([20495]), "is int64, and cannot hold a partition of type date"),
        ("month", pa.array([MIDNIGHT.date()]), "cannot hold a partition of type month"),
        ("string", pa.array([NOON]), "cannot hold a partition of type string"),
        ("string", pa.array([["x"]]), "cannot hold a partition of type string"),
    ],
    ids=str,
)
def test_a_value_that_is_none_of_the_columns_type_is_refused(
    kind: PartitionType, values: pa.Array, message: str
) -> None:
    with pytest.raises(SchemaError, match=f"column 'Key' of the object x .*{message}"):
        chosen(PartitionColumn("key", kind, in_rows=True), "__HIVE_DEFAULT_PARTITION__", values)


@pytest.mark.parametrize(
    ("kind", "first", "endless"),
    [
        (pa.timestamp("ns"), -9_223_286_400_000_000_000, None),
        (pa.timestamp("us"), -9_223_372_022_400_000_000, -(2**63) + 1),
        (pa.timestamp("us", "UTC"), -9_223_372_022_400_000_000, -(2**63) + 1),
        (pa.date32(), -(2**31) + 2, -(2**31) + 1),
    ],
    ids=str,
)
def test_a_time_before_the_first_that_duckdb_reads_is_refused_by_column(
    kind: pa.DataType, first: int, endless: int | None
) -> None:
    width = pa.int32() if kind == pa.date32() else pa.int64()

    def column(*stored: int | None) -> pa.RecordBatch:
        return pa.record_batch({"x": pa.ListArray.from_arrays([0, len(stored)], pa.array(stored, width).view(kind))})

    good = column(first, None, *([] if endless is None else [endless]))
    assert fit(good, good.schema).equals(good)
    bad = column(0, first - 2 if endless == first - 1 else first - 1)
    with pytest.raises(SchemaError, match=r"column 'x' of the object x has a time before .*, the first that DuckDB's"):
        fit(bad, bad.schema)


VIEW, BYTES = pa.string_view(), pa.binary_view()


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (VIEW, "a"),
        (pa.list_(VIEW), ["a", None]),
        (pa.struct([("v", BYTES), ("n", pa.int8())]), {"v": b"a", "n": 1}),
        (pa.map_(pa.string(), pa.list_(VIEW)), [("k", ["a"])]),
    ],
    ids=str,
)
def test_rows_are_chosen_beside_views_in_any_depth(data_type: pa.DataType, value: object) -> None:
    batch = pa.record_batch({"v": pa.array([value, None, value], data_type), "key": ["x", "y", "y"]})
    partition = Partition.of([PartitionColumn("key", "string", in_rows=True)], {"key": "y"})
    target = pa.schema([("v", without_views(batch).schema.field("v").type)])
    fitter = Fitter(batch.schema, Target(target, Rules(selects=True)), partition, "the object x")

    assert fitter.fit(batch).column("v").to_pylist() == [None, value]


def test_a_fitter_serves_other_partitions_unless_a_column_tells_the_partition() -> None:
    sw = Partition(NW.columns, ("SW", NW.values[1]))
    target = Target(pa.schema([("x", pa.int64())]))
    of_any = Fitter(pa.schema([("x", pa.int32())]), target, NW, "the object a")
    of_one = Fitter(pa.schema([("x", pa.int32()), ("region", pa.string())]), target, NW, "the object a")

    assert of_any.fits(sw)
    assert not of_one.fits(sw)
    assert of_one.fits(NW)
    with pytest.raises(SchemaError, match=r"the object a has a row with region='SW', and belongs to region=NW/"):
        of_one.of("the object a", NW).fit(pa.record_batch({"x": pa.array([1], pa.int32()), "region": ["SW"]}))
