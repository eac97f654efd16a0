"""Columns that a stream declares: the types of the table, and how landed columns become its columns."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.ingest.landed_footers import inferred_columns
from lake_assets_tests.ingest.landed_as import columns_of, landed, load, small_sample, types  # noqa: F401 - a fixture
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales

FORMS = pytest.mark.parametrize("form", ["csv", "parquet", *more(["json", "orc"])])


def declare(world: World, columns: dict[str, Any], **options: Any) -> None:
    world.options = {"columns": columns, **options}


def totals(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "total": pa.array(values, kind)})


# Types.


def test_a_new_table_has_the_declared_types_beside_descriptions(local_world: World) -> None:
    declare(local_world, {"total": {"type": "decimal(12,2)", "description": "Gross"}, "id": "A number"})

    assert load(local_world, totals(pa.decimal128(5, 2), Decimal("2.50"))).status == "committed"
    assert types(local_world) == {"id": "BIGINT", "total": "DECIMAL(12,2)"}
    assert columns_of(local_world, "total") == [(Decimal("2.50"),)]


@pytest.mark.parametrize(
    ("options", "row", "kind", "value"),
    [
        pytest.param({"format": "csv"}, {"id": "7", "total": 2.5}, "VARCHAR", "7", id="csv"),
        pytest.param({"mode": "index"}, {"id": 7, "total": 2.5}, "BIGINT", 7, id="index"),
        pytest.param({"format": "json"}, {"id": "7", "total": 2.5}, "VARCHAR", "7", id="json", marks=pytest.mark.more),
    ],
)
def test_each_format_and_mode_makes_the_declared_types(
    local_world: World, options: dict[str, Any], row: dict[str, Any], kind: str, value: object
) -> None:
    total = "DOUBLE" if "mode" in options else "DECIMAL(12,2)"
    declare(local_world, {"id": {"type": kind}, "total": {"type": total}}, **options)
    form = options.get("format", "parquet")
    schema = pa.schema({"id": pa.int32(), "total": pa.float64()}) if form == "parquet" else None
    local_world.land(NW, landed(form, row, schema=schema), f"a.{form}")

    assert (
        form == "parquet"
        or f"added column total {total}" in plan(local_world.stream, local_world.partition(NW)).columns
    )
    local_world.ingest(NW)

    assert types(local_world) == {"id": kind, "total": total}
    assert columns_of(local_world, "id, total") == [(value, 2.5)]


@pytest.mark.parametrize("policy", ["strict", *more(["evolve"])])
def test_a_landed_type_that_the_declared_one_does_not_hold_is_refused_by_name(local_world: World, policy: str) -> None:
    declare(local_world, {"total": {"type": "integer"}}, schema_policy=policy)
    load(local_world, totals(pa.int32(), 1))

    with pytest.raises(
        SchemaError, match=r"column 'total' of the object .*a\.parquet (is int64, and|has a value).*int32"
    ):
        load(local_world, totals(pa.int64(), 2**40), SW)
    assert types(local_world)["total"] == "INTEGER"


def test_a_declared_column_takes_numbers_by_value_and_stays_as_it_is(local_world: World) -> None:
    declare(local_world, {"total": {"type": "integer"}}, schema_policy="evolve")
    load(local_world, totals(pa.int32(), 1))
    load(local_world, totals(pa.int64(), 2), SW)

    assert types(local_world)["total"] == "INTEGER"
    assert local_world.totals() == [1, 2]


def test_an_object_that_does_not_fit_the_declared_columns_is_quarantined_before_there_is_a_table(
    local_world: World,
) -> None:
    columns = {"total": {"type": "integer"}, "id": {"type": "bigint", "nullable": False}}
    declare(local_world, columns, on_bad_object="quarantine", schema_policy="evolve")
    local_world.land(NW, totals(pa.int64(), 2**40), "a.parquet")
    local_world.land(NW, totals(pa.int32(), 1).drop_columns("id"), "b.parquet")

    row = load(local_world, totals(pa.int32(), 1), name="c")

    assert (row.row_count, row.files_quarantined) == (1, 2)
    assert types(local_world)["total"] == "INTEGER"


@pytest.mark.parametrize("mode", ["replace", *more(["append", "index"])])
def test_a_table_of_another_type_is_refused_before_anything_runs(local_world: World, mode: str) -> None:
    declare(local_world, {}, mode=mode)
    local_world.commit(NW, 1.5)
    declare(local_world, {"total": {"type": "decimal(12,2)"}}, mode=mode)
    local_world.land(SW, sales(2.5))
    message = r"'total' of table main.sales is DOUBLE, and `columns` declares DECIMAL\(12,2\): declare type: DOUBLE"

    with pytest.raises(SchemaError, match=message):
        plan(local_world.stream, local_world.partition(SW))
    with pytest.raises(SchemaError, match=message):
        local_world.ingest(SW)
    assert local_world.totals() == [1.5]


def test_a_declared_column_that_the_table_lacks_is_refused_unless_it_evolves(local_world: World) -> None:
    local_world.options = {"format": "csv"}
    load(local_world, b"id\n1\n")
    declare(local_world, {"code": {"type": "VARCHAR"}}, format="csv")

    with pytest.raises(SchemaError, match=r"has no column 'code', which `columns` declares as VARCHAR"):
        load(local_world, b"id,code\n2,17\n", SW)

    local_world.options |= {"schema_policy": "evolve"}
    assert [str(change) for change in local_world.ingest(SW).changes] == ["added column code VARCHAR"]
    assert columns_of(local_world, "id, code") == [(1, None), (2, "17")]


def test_a_declared_column_that_is_not_landed_is_a_missing_one(local_world: World) -> None:
    declare(local_world, {"note": {"type": "string"}})
    with pytest.raises(SchemaError, match="it lacks 'note'"):
        load(local_world, sales(1.5))
    local_world.options |= {"schema_policy": "evolve"}
    local_world.ingest(NW)
    assert columns_of(local_world, "total, note") == [(1.5, None)]


def test_a_changed_declaration_reads_a_partition_again_and_a_changed_description_does_not(local_world: World) -> None:
    declare(local_world, {"total": {"type": "double"}})
    local_world.commit(NW, 1.5)
    declare(local_world, {"total": {"type": "double", "description": "Gross"}, "id": "A number"})
    assert local_world.ingest(NW).row.status == "skipped"
    declare(local_world, {"total": {"type": "double"}, "id": {"type": "bigint"}})
    assert local_world.ingest(NW).row.status == "committed"


# Names, and columns that are left out.

RENAMED = {"total": {"type": "decimal(12,2)", "from": "Total Amount"}, "secret": {"omit": True}}
BODIES: dict[str, list[Any]] = {
    "csv": [b"id,Total Amount,secret\n1,2.5,x\n", b"secret,total amount,id\n9,7.25,2\n"],
    "json": [b'{"id": 1, "Total Amount": 2.5, "secret": "x"}\n', b'{"id": 2, "secret": [9], "Total Amount": 7.25}\n'],
    "parquet": [
        pa.table({"id": [1], "Total Amount": pa.array([Decimal("2.5")]), "secret": ["x"]}),
        pa.table({"SECRET": [9], "total amount": pa.array([Decimal("7.25")]), "id": [2]}),
    ],
}


@pytest.mark.parametrize(
    ("form", "policy"),
    [
        ("csv", "strict"),
        ("json", "evolve"),
        ("parquet", "ignore_extra"),
        *more([("parquet", "strict"), ("parquet", "evolve")]),
    ],
)
def test_a_landed_column_may_have_another_name_and_another_one_be_left_out(
    local_world: World, form: str, policy: str
) -> None:
    declare(local_world, RENAMED, format=form, schema_policy=policy)
    for partition, body in zip((NW, SW), BODIES[form], strict=True):
        local_world.land(partition, body, f"a.{form}")
        assert not [text for text in plan(local_world.stream, local_world.partition(partition)).columns if "No" in text]
        local_world.ingest(partition)

    assert types(local_world) == {"id": "BIGINT", "total": "DECIMAL(12,2)"}
    assert columns_of(local_world, "total") == [(Decimal("2.50"),), (Decimal("7.25"),)]


@pytest.mark.parametrize("int96", [False, True])
def test_times_of_nanoseconds_and_dictionaries_are_read_by_their_landed_names(local_world: World, int96: bool) -> None:
    declare(local_world, {"seen": {"type": "TIMESTAMP_NS", "from": "When"}, "shop": {"from": "Shop"}})
    moment = 1_700_000_000_123_456_789
    times, shops = pa.array([moment], pa.timestamp("ns")), pa.array(["a"]).dictionary_encode()
    local_world.land(NW, pa.table({"When": times, "Shop": shops}), use_deprecated_int96_timestamps=int96)
    local_world.ingest(NW)

    assert types(local_world) == {"seen": "TIMESTAMP_NS", "shop": "VARCHAR"}
    assert columns_of(local_world, "epoch_ns(seen), shop") == [(moment, "a")]


@pytest.mark.parametrize(
    ("form", "policy"), [("orc", "evolve"), *more([("orc", "strict"), ("orc", "ignore_extra"), ("parquet", "evolve")])]
)
def test_columns_named_by_their_places_are_refused_until_they_have_names(
    local_world: World, form: str, policy: str
) -> None:
    rules = {"format": form, "schema_policy": policy}
    hive = landed(form, {"_col0": 2, "_col1": "b"})
    advice = r"its writer has named by their places: .* such as `columns: \{id: \{from: _col0\}\}`"
    declare(local_world, {}, **rules)
    with pytest.raises(SchemaError, match=advice):
        load(local_world, hive)
    assert "named by their places" in str(plan(local_world.stream, local_world.partition(NW)).decision)
    load(local_world, landed(form, {"id": 1, "name": "a"}), SW)
    with pytest.raises(SchemaError, match=advice):
        load(local_world, hive)
    assert types(local_world) == {"id": "BIGINT", "name": "VARCHAR"}

    declare(local_world, {"id": {"from": "_col0"}, "name": {"from": "_col1"}}, **rules)
    load(local_world, hive)

    assert columns_of(local_world, "id, name") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("named", [True, False])
def test_columns_named_by_their_places_are_not_indexed(local_world: World, named: bool) -> None:
    declare(local_world, {}, mode="index")
    if named:
        load(local_world, pa.table({"id": [1]}), SW)
    with pytest.raises(SchemaError, match="named by their places"):
        load(local_world, pa.table({"_col0": [2]}))


def test_two_landed_columns_of_one_name_are_refused(local_world: World) -> None:
    declare(local_world, {"total": {"from": "amount"}})

    with pytest.raises(SchemaError, match="columns 'amount' and 'Total', and each is 'Total' in the table: omit one"):
        load(local_world, pa.table({"amount": [1], "Total": [2]}))


def test_another_field_of_json_is_refused_beside_one_that_is_left_out(
    local_world: World,
    small_sample: int,  # noqa: F811
) -> None:
    declare(local_world, {"secret": {"omit": True}}, format="json", on_bad_row="dead_letter")
    load(local_world, b'{"id": 1, "at": {"x": 1}}\n')
    bad = b'{"id": 2, "secret": 1, "note": "a"}\n{"id": 3, "at": {"x": 1, "y": 2}}'

    with pytest.raises(SchemaError, match=r"it has 'at\.y', 'note'"):
        load(local_world, bad, SW)  # in the sample it is a column

    omitted = b'{"id": 4, "secret": {"z": 1}}\n{"id": 5, "secret": "%s"}\n' % (b"b" * 2000)
    count = small_sample // len(omitted) + 1
    assert load(local_world, omitted * count + bad, SW).row_count == 2 * count
    assert [letter["_raw"] for letter in letters(local_world)] == bad.decode().split("\n")
    reasons = [letter["_reason"].split(": ")[1] for letter in letters(local_world)]
    assert reasons == ["unknown field 'note'", "unknown field 'at.y'"]


# What is inferred.


def test_what_is_inferred_can_be_declared(local_world: World) -> None:
    others = {"region": {"description": "Where"}, "n": {"description": "Its number"}}  # of no landed column
    options = {"file_columns": {"n": "row_number"}, "rescue": "_rescued"}
    declare(local_world, RENAMED | others | {"id": "Key"}, **options)
    assert local_world.landing  # an empty folder
    with pytest.raises(SourceError, match="nothing has landed in"):
        inferred_columns(local_world.stream)
    table = BODIES["parquet"][0].append_column("note", pa.nulls(1)).append_column("at", pa.array([[{"x y": 1}]]))
    local_world.land(NW, table)
    of_objects = inferred_columns(local_world.stream)

    assert (
        of_objects
        == {
            "id": {"type": "BIGINT", "description": "Key"},
            "total": {"type": "DECIMAL(12,2)", "from": "Total Amount"},
            "note": {},
            "at": {"type": 'STRUCT("x y" BIGINT)[]'},
            "secret": {"omit": True},
        }
        | others
    )
    declare(local_world, dict(of_objects), **options)
    local_world.ingest(NW)
    assert inferred_columns(local_world.stream) == dict(of_objects) | {"note": {"type": "INTEGER"}}


# Rules on values.

FORMATS = {"total": {"type": "DECIMAL(12,2)", "format": "#.##0,00 EUR"}, "sold": {"type": "DATE", "format": "%d.%m.%Y"}}
WRITTEN: list[dict[str, Any]] = [
    {"total": "1.234,50 EUR", "sold": "11.02.2026"},
    {"total": "2,5", "sold": "01.01.2026"},
    {"total": "-3", "sold": None},
]
READ = [
    (Decimal("-3.00"), None),
    (Decimal("2.50"), dt.date(2026, 1, 1)),
    (Decimal("1234.50"), dt.date(2026, 2, 11)),
]


def of(form: str) -> dict[str, Any]:
    return {"format": {"type": "csv", "delimiter": ";"} if form == "csv" else form}


@FORMS
def test_texts_are_read_in_the_format_of_their_column(local_world: World, form: str) -> None:
    declare(local_world, FORMATS, **of(form))
    for text in (NW, SW):  # the second one by the types of the table
        load(local_world, landed(form, *WRITTEN, delimiter=";"), text)

    for region in ("NW", "SW"):
        assert columns_of(local_world, "total, sold", f"region = '{region}'") == READ


@pytest.mark.parametrize("form", ["parquet", *more(["csv", "json"])])
def test_a_table_grows_beside_texts_in_the_format_of_their_column(local_world: World, form: str) -> None:
    declare(local_world, FORMATS, schema_policy="evolve", **of(form))
    load(local_world, landed(form, *WRITTEN, delimiter=";"))
    load(local_world, landed(form, *({**row, "new": 1} for row in WRITTEN), delimiter=";"), SW)

    assert columns_of(local_world, "total, sold, new", "region = 'SW'") == [(*row, 1) for row in READ]


@pytest.mark.parametrize("form", ["csv", "parquet", *more(["json"])])
def test_texts_that_are_not_in_the_format_are_bad_rows(local_world: World, form: str) -> None:
    declare(local_world, FORMATS, on_bad_row="dead_letter", **of(form))
    bad = ["1,234.50", "12.34", "x", "1.2345,00", "1,234"]
    rows = [*WRITTEN, *({"total": text, "sold": None} for text in bad)]

    row = load(local_world, landed(form, *rows, delimiter=";"))

    assert (row.row_count, row.rows_dead_lettered) == (3, len(bad))
    for letter, text in zip(letters(local_world), bad, strict=True):
        assert f"column 'total' has the value {text}" in letter["_reason"]


@FORMS
def test_rows_without_a_value_get_the_default(local_world: World, form: str) -> None:
    columns = {
        "n": {"type": "BIGINT", "default": 7, "nullable": False},
        "kind": {"type": "VARCHAR", "default": "none"},
    }
    declare(local_world, columns, format=form)
    local_world.land(NW, landed(form, {"n": 1, "kind": "a"}, {"n": None, "kind": None}), f"a.{form}")

    load(local_world, landed(form, {"n": 3}, {"n": 4}), name="b")

    assert columns_of(local_world, "n, kind") == [(1, "a"), (3, "none"), (4, "none"), (7, "none")]


@FORMS
def test_a_row_without_a_required_value_is_a_bad_row(local_world: World, form: str) -> None:
    declare(local_world, {"id": {"type": "BIGINT", "nullable": False}}, format=form)

    with pytest.raises(SchemaError, match=r"column 'id' of the object .*a\.\w+ has a row without a value"):
        load(local_world, landed(form, {"id": 1, "text": "a"}, {"id": None, "text": "b"}))
    local_world.options |= {"on_bad_row": "dead_letter"}
    row = local_world.ingest(NW).row

    assert (row.row_count, row.rows_dead_lettered) == (1, 1)
    (letter,) = letters(local_world)
    assert "column 'id' has no value, and `columns` declares nullable: false" in letter["_reason"]
    assert columns_of(local_world, "id, text") == [(1, "a")]


@pytest.mark.more
def test_a_transform_sees_the_declared_names_and_types_and_its_result_has_the_rules_too(local_world: World) -> None:
    columns = {
        "code": {"type": "string", "from": "Code", "nullable": False},
        "gross": {"type": "decimal(20,4)"},
        "half": {"type": "DOUBLE", "default": -1},
    }
    result = "nullif(code, '0') AS code, length(code) AS digits, CAST(1 AS DECIMAL(10,2)) AS gross"
    sql = f"SELECT {result}, CAST(NULL AS DOUBLE) AS half FROM source"
    declare(local_world, columns, format="json", transform={"sql": sql})
    with pytest.raises(SchemaError, match="column 'code' of the transform's result has a row without a value"):
        load(local_world, b'{"Code": "0"}\n')

    load(local_world, b'{"Code": "7"}\n')

    assert types(local_world) == {"code": "VARCHAR", "digits": "INTEGER", "gross": "DECIMAL(20,4)", "half": "DOUBLE"}
    assert columns_of(local_world, "code, digits, gross, half") == [("7", 1, Decimal(1), -1.0)]


def test_a_file_whose_values_are_looked_at_is_not_copied(local_world: World) -> None:
    declare(local_world, {"id": {"type": "BIGINT", "nullable": False}}, copy="always")

    with pytest.raises(SchemaError, match="has a row without a value"):
        load(local_world, pa.table({"id": pa.array([1, None], pa.int64())}))
