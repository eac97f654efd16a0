"""Which values enter a column: those that are the same afterwards; and what has no value decides nothing."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.commit.insert import replace_by_insert
from lake_assets.lake.commit.strategy import Strategy
from lake_assets_tests.ingest.landed_as import as_avro, as_orc, columns_of, landed, load, not_utf8, types
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.world import NW, SW, World, plan


def of(world: World, form: str = "parquet", **options: Any) -> World:
    world.options = {"format": form} | options
    return world


def parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def of_pandas(frame: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    frame.to_parquet(sink)
    return sink.getvalue()


GOOD = {"id": 1, "note": "a"}
WITHOUT_ROWS = {
    "no columns": ("parquet", of_pandas(pd.DataFrame())),
    "other type": ("parquet", parquet(pa.table({"id": pa.array([], pa.string())}))),
    "no columns of orc": ("orc", as_orc(pa.table({}))),
    "avro": ("avro", as_avro([], [{"name": "note", "type": "string"}])),
    "header": ("csv", b"note\n"),
    "no line end": ("csv", b"note,more"),
}


@pytest.mark.parametrize("mode", ["replace", "append", *more(["evolve"])])
@pytest.mark.parametrize("what", WITHOUT_ROWS)
def test_an_object_without_rows_refuses_none_that_has_rows(local_world: World, what: str, mode: str) -> None:
    form, empty = WITHOUT_ROWS[what]
    of(local_world, form, **({"schema_policy": mode} if mode == "evolve" else {"mode": mode}))
    for text in (NW, SW):  # of a new table, and of a table
        local_world.land(text, empty, f"0.{form}")
        local_world.land(text, landed(form, GOOD), f"1.{form}")
        local_world.land(text, empty, f"2.{form}")
        assert not plan(local_world.stream, local_world.partition(text)).decision.fails
        local_world.ingest(text)
    assert columns_of(local_world, "id, note, region") == [(1, "a", "NW"), (1, "a", "SW")]


def test_an_object_without_rows_has_no_say_in_an_index(local_world: World) -> None:
    of(local_world, mode="index")
    local_world.land(NW, parquet(pa.table({"id": pa.array([], pa.string())})), "0.parquet")
    load(local_world, landed("parquet", GOOD))
    assert columns_of(local_world, "id, note") == [(1, "a")]


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_an_object_of_no_bytes_is_refused_for_that_and_quarantine_leaves_it_out(local_world: World, form: str) -> None:
    of(local_world, form)
    local_world.land(NW, b"", f"0.{form}")
    with pytest.raises(SourceError, match=r"0\..* is empty \(0 bytes\)"):
        load(local_world, landed(form, GOOD))
    local_world.options["on_bad_object"] = "quarantine"
    assert local_world.ingest(NW).row.row_count == 1


PRICE = pa.decimal128(4, 2)
# The column's first value, a value that enters though its type is another one, as what, and one that does not enter.
NUMBERS: dict[str, tuple[pa.Array, pa.Array, object, pa.Array]] = {
    "int32 in double": (pa.array([0.5]), pa.array([7], pa.int32()), 7.0, pa.array([2**53 + 1])),
    "int64 in double": (pa.array([0.5]), pa.array([2**53]), 2.0**53, pa.array([2**53 + 1])),
    "double in int64": (pa.array([1]), pa.array([7.0]), 7, pa.array([7.5])),
    "int8 in decimal": (
        pa.array([Decimal(1)], PRICE),
        pa.array([7], pa.int8()),
        Decimal(7),
        pa.array([100], pa.int8()),
    ),
    "int64 in decimal": (pa.array([Decimal(1)], PRICE), pa.array([7]), Decimal(7), pa.array([10**15])),
    "double in decimal": (pa.array([Decimal(1)], PRICE), pa.array([0.25]), Decimal("0.25"), pa.array([0.125])),
    "decimal in double": (
        pa.array([0.5]),
        pa.array([Decimal("12.25")], pa.decimal128(20, 2)),
        12.25,
        pa.array([Decimal("9007199254740993.25")], pa.decimal128(20, 2)),
    ),
    # Arrow's own casts are off in the last digit.
    "price in decimal": (
        pa.array([Decimal(1)], pa.decimal128(38, 18)),
        pa.array([19008.1]),
        Decimal("19008.1"),
        pa.array([1e30]),
    ),
    "exact in decimal": (
        pa.array([Decimal(1)], pa.decimal128(18, 2)),
        pa.array([10**15 + 0.25]),
        Decimal("1000000000000000.25"),
        pa.array([0.125]),
    ),
    "price in double": (
        pa.array([0.5]),
        pa.array([Decimal("19008.10")], pa.decimal128(18, 2)),
        19008.1,
        pa.array([Decimal("9007199254740993.25")], pa.decimal128(20, 2)),
    ),
    "decimal in decimal": (
        pa.array([Decimal(1)], pa.decimal128(38, 10)),
        pa.array([Decimal(7)], pa.decimal128(38, 0)),
        Decimal(7),
        pa.array([Decimal(35000000000000000000000000000)], pa.decimal128(38, 0)),  # 128 bits of it are another one
    ),
    "decimal in int64": (
        pa.array([1]),
        pa.array([Decimal("7.00")], pa.decimal128(4, 2)),
        7,
        pa.array([Decimal("7.50")], pa.decimal128(4, 2)),
    ),
    "int64 in int32": (pa.array([1], pa.int32()), pa.array([7]), 7, pa.array([2**40])),
    "double in float": (pa.array([1], pa.float32()), pa.array([0.5]), 0.5, pa.array([0.1])),
    "within": (pa.array([[{"a": 1}]]), pa.array([[{"a": 7.0}]]), [{"a": 7}], pa.array([[{"a": 7.5}]])),
}


def in_a_column(values: pa.Array, number: int = 0) -> bytes:
    return parquet(pa.table({"id": pa.array([number]), "value": values}))


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_another_type_enters_if_it_is_the_same_there(local_world: World, kind: str) -> None:
    first, fits, as_what, other = NUMBERS[kind]
    load(of(local_world), in_a_column(first))
    load(local_world, in_a_column(fits), SW)
    assert columns_of(local_world, "value", "region = 'SW'") == [(as_what,)]
    with pytest.raises(SchemaError, match=r"column 'value' of .* has a value that .* cannot hold"):
        load(local_world, in_a_column(other), SW)

    local_world.options |= {"on_bad_row": "dead_letter"}
    assert load(local_world, in_a_column(other, 1), SW, name="b").rows_dead_lettered == 2


@pytest.mark.parametrize("kind", ["int8 in decimal", *more([kind for kind in NUMBERS if kind != "int8 in decimal"])])
def test_rescue_keeps_only_numbers_that_would_be_others(local_world: World, kind: str) -> None:
    first, fits, as_what, other = NUMBERS[kind]
    load(of(local_world, rescue="_r"), in_a_column(first))
    local_world.land(SW, in_a_column(fits), "a.parquet")
    load(local_world, in_a_column(other, 1), SW, name="b")
    fitting, rest = columns_of(local_world, "value, _r", "region = 'SW' ORDER BY id --")
    assert fitting == (as_what, None)
    assert rest[0] is None
    assert list(json.loads(rest[1])) == ["value"]


LARGE = 2**53 + 1
TEXTS: dict[str, tuple[Any, bytes, bytes]] = {
    "csv": ("csv", b"id,value\n1,10.5\n", b"id,value\n2,%d\n3,0.5\n" % LARGE),
    "comma": (
        {"type": "csv", "delimiter": ";", "decimal": ","},
        b"id;value\n1;10,5\n",
        b"id;value\n2;%d\n3;0,5\n" % LARGE,
    ),
    "thousands": (
        {"type": "csv", "thousands": " "},
        b"id,value\n1,1 000.5\n",
        b"id,value\n2,9 007 199 254 740 993\n3,0.5\n",
    ),
    "json": ("json", b'{"id":1,"value":10.5}\n', b'{"id":2,"value":%d}\n{"id":3,"value":0.5}\n' % LARGE),
    "within": (
        "json",
        b'{"id":1,"value":[{"a":10.5}]}\n',
        b'{"id":2,"value":[{"a":%d}]}\n{"id":3,"value":[{"a":0.5}]}\n' % LARGE,
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_whole_number_of_a_text_is_never_rounded(local_world: World, text: str) -> None:
    form, first, later = TEXTS[text]
    load(of(local_world, form), first)
    with pytest.raises(SchemaError, match=str(LARGE)):
        load(local_world, later, SW)
    local_world.options |= {"on_bad_row": "dead_letter"}
    row = local_world.ingest(SW).row
    assert (row.row_count, row.rows_dead_lettered) == (1, 1)


@pytest.mark.parametrize("text", TEXTS)
def test_rescue_keeps_a_whole_number_that_would_be_rounded(local_world: World, text: str) -> None:
    form, first, later = TEXTS[text]
    load(of(local_world, form, rescue="_r"), first)
    load(local_world, later, SW)
    rescued, plain = columns_of(local_world, "id, value IS NULL, _r", "region = 'SW'")
    assert rescued[:2] == (2, True)
    assert str(LARGE) in rescued[2].replace(" ", "")
    assert plain == (3, False, None)


WHOLE: dict[str, tuple[Any, bytes, bytes, bytes]] = {
    "csv": ("csv", b"id,value\n1,10\n", b"id,value\n2,11.0\n3,\n4,1e+02\n", b"id,value\n5,10.5\n"),
    "comma": (
        {"type": "csv", "delimiter": ";", "decimal": ","},
        b"id;value\n1;10\n",
        b"id;value\n2;11,0\n3;\n4;1e+02\n",
        b"id;value\n5;10.0\n",
    ),
    "json": (
        "json",
        b'{"id":1,"value":10}\n',
        b'{"id":2,"value":11.0}\n{"id":3}\n{"id":4,"value":1e+02}\n',
        b'{"id":5,"value":10.5}\n',
    ),
    "parquet": (
        "parquet",
        landed("parquet", {"id": 1, "value": 10}),
        of_pandas(pd.DataFrame({"id": [2, 3, 4], "value": [11, None, 100]})),
        landed("parquet", {"id": 5, "value": 10.5}),
    ),
}


@pytest.mark.parametrize(
    "options", [{}, *more([{"schema_policy": "evolve"}, {"columns": {"value": {"type": "BIGINT"}}}])]
)
@pytest.mark.parametrize("form", WHOLE)
def test_whole_numbers_beside_a_missing_one_enter_a_column_of_whole_numbers(
    local_world: World, form: str, options: dict[str, Any]
) -> None:
    kind, first, doubles, other = WHOLE[form]
    load(of(local_world, kind, **options), first)
    load(local_world, doubles, SW)
    assert columns_of(local_world, "id, value") == [(1, 10), (2, 11), (3, None), (4, 100)]
    with pytest.raises(SchemaError, match="value"):
        load(local_world, other, SW)


BEYOND = {
    "infinite": b'{"id":99,"total":1e999}',
    "within": b'{"id":99,"total":1.5,"within":{"x":1e999}}',
    "digits": b'{"id":99,"total":1%s}' % (b"0" * 400),
    "digits within": b'{"id":99,"total":1.5,"within":[1%s]}' % (b"0" * 400),
}


@pytest.mark.parametrize("what", BEYOND)
@pytest.mark.parametrize("place", [0, 1])
def test_a_number_beyond_all_types_is_one_bad_row_wherever_it_is(local_world: World, what: str, place: int) -> None:
    lines = [b'{"id":%d,"total":%d.5}' % (number, number) for number in range(5)]
    body = b"\n".join([*lines[:place], BEYOND[what], *lines[place:]])
    of(local_world, "json", on_bad_row="dead_letter")
    for text in (NW, SW):  # of a new table, and of a table
        row = load(local_world, body, text)
        assert (row.row_count, row.rows_dead_lettered) == (5, 1)
    assert columns_of(local_world, "count(*), sum(total)") == [(10, 25.0)]


MIXED: dict[str, tuple[bytes, str, list[Any]]] = {
    "scalars": (b'{"v":false}\n{"v":"false"}\n{"v":0}\n', "VARCHAR", ["0", "false", "false"]),
    "list": (b'{"v":"a"}\n{"v":["a"]}\n', "VARCHAR", ['["a"]', "a"]),
    "elements": (b'{"v":[42,[]]}\n', "VARCHAR[]", [["42", "[]"]]),
    "within": (
        b'{"v":{"a":1}}\n{"v":{"a":{"b":"\xc3\xa9"}}}\n',
        "STRUCT(a VARCHAR)",
        [{"a": "1"}, {"a": '{"b": "é"}'}],
    ),
    "beyond 64 bits": (b'{"v":{"a":%d}}\n' % 2**70, "STRUCT(a VARCHAR)", [{"a": str(2**70)}]),
    "beyond 38 digits": (b'{"v":%d}\n' % 10**40, "VARCHAR", [str(10**40)]),
    "infinite": (b'{"v":1e999}\n', "VARCHAR", ["1e999"]),
}


@pytest.mark.parametrize("options", [{}, *more([{"rescue": "_r"}, {"schema_policy": "evolve"}])])
@pytest.mark.parametrize("what", MIXED)
def test_a_field_of_mixed_kinds_is_its_json(local_world: World, what: str, options: dict[str, Any]) -> None:
    body, kind, values = MIXED[what]
    load(of(local_world, "json", **options), body)
    assert types(local_world)["v"] == kind
    assert [value for (value,) in columns_of(local_world, "v")] == values


@pytest.mark.parametrize("what", ["elements", *more(["scalars", "list", "within"])])
def test_a_field_that_is_declared_a_text_is_its_json(local_world: World, what: str) -> None:
    load(of(local_world, "json", columns={"v": {"type": "VARCHAR"}}), MIXED[what][0])
    texts = [json.loads(line)["v"] for line in MIXED[what][0].splitlines()]
    assert {value for (value,) in columns_of(local_world, "v")} == {
        text if isinstance(text, str) else json.dumps(text, ensure_ascii=False) for text in texts
    }


def test_objects_of_which_one_has_an_empty_list_have_one_type(local_world: World) -> None:
    of(local_world, "json").land(NW, b'{"v":[]}', "a.json")
    load(local_world, b'{"v":[{"x":"1"}]}', name="b")
    assert columns_of(local_world, "v") == [([],), ([{"x": "1"}],)]


EMPTY_STRUCT = pa.struct([("a", pa.null())])
FIRST = {
    "parquet": parquet(
        pa.table(
            {
                "id": [1],
                "note": pa.nulls(1),
                "tags": pa.array([[]], pa.list_(pa.null())),
                "s": pa.array([{"a": None}], EMPTY_STRUCT),
                "m": pa.nulls(1),
            }
        )
    ),
    "json": b'{"id":1,"note":null,"tags":[],"s":{"a":null},"m":{}}\n',
}
SECOND = {
    "parquet": parquet(
        pa.table(
            {
                "id": [2, 3],
                "note": ["x", None],
                "tags": [["p"], None],
                "s": [{"a": {"b": 7}}, None],
                "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            }
        )
    ),
    "json": b'{"id":2,"note":"x","tags":["p"],"s":{"a":{"b":7}},"m":{"k":1}}\n{"id":3}\n',
}


POLICIES: list[dict[str, Any]] = [
    {},
    {"schema_policy": "evolve"},
    {"schema_policy": "ignore_extra"},
    {"on_bad_row": "dead_letter"},
    {"rescue": "_r"},
]
STRATEGIES: dict[str, Strategy] = {
    "direct": replace_directly,
    "extension": replace_by_extension,
    "insert": replace_by_insert,
}
LAKES = [(catalog, strategy) for strategy in STRATEGIES for catalog in ("sqlite", "postgres", "duckdb")]


def word(value: Any) -> str:
    """The catalog, strategy or policy of a case."""
    if isinstance(value, dict):
        return str(next(iter(value.values()), "strict"))
    return str(value[0] if isinstance(value, tuple) else value)


@pytest.mark.parametrize("form", FIRST)
@pytest.mark.parametrize(
    ("world", "strategy", "options"),
    [
        (("sqlite", "local"), "direct", {}),
        *more([((catalog, "local"), "direct", policy) for catalog, _ in LAKES[:3] for policy in POLICIES][1:]),
        *more([((catalog, "local"), strategy, {}) for catalog, strategy in LAKES[3:]]),
        *soak([((catalog, "local"), strategy, policy) for catalog, strategy in LAKES[3:] for policy in POLICIES[1:]]),
    ],
    indirect=["world"],
    ids=word,
)
def test_the_first_value_gives_its_type_at_each_depth(
    world: World, form: str, strategy: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lake_options = {"attach_options": {"encrypted": strategy == "insert"}}
    monkeypatch.setattr("lake_assets.lake.commit.strategy.strategies_of", lambda *_: (STRATEGIES[strategy],))
    load(of(world, form, **options), FIRST[form])
    before = world.query("SELECT max(snapshot_id) FROM lake.snapshots()")[0][0]
    row = load(world, SECOND[form], SW)

    assert (row.row_count, row.rows_dead_lettered or 0) == (2, 0)
    kinds = types(world)
    assert [kinds[name] for name in ("note", "tags", "s")] == ["VARCHAR", "VARCHAR[]", "STRUCT(a STRUCT(b BIGINT))"]
    assert columns_of(world, "id, note, tags, s.a.b, m IS NULL") == [
        (1, None, [], None, True),
        (2, "x", ["p"], 7, False),
        (3, None, None, None, True),
    ]
    assert columns_of(world, "id", "note = 'x' AND tags = ['p']") == [(2,)]
    assert world.query(f"SELECT id, tags FROM lake.sales AT (VERSION => {before})") == [(1, [])]
    assert world.ingest(NW, force=True).row.row_count == 1


def test_the_first_value_of_csv_gives_its_type(local_world: World) -> None:
    load(of(local_world, "csv"), b"id,note\n1,\n")
    load(local_world, b"id,note\n2,x\n", SW)
    assert columns_of(local_world, "id, note") == [(1, None), (2, "x")]


def test_partitions_of_one_run_have_one_table_though_the_first_has_no_value(local_world: World) -> None:
    of(local_world, "json").land(NW, b'{"id":1,"note":null}', "a.json")
    local_world.land(SW, b'{"id":2,"note":"x"}', "a.json")
    assert [row.error for row in local_world.stream.ingest("date=2026-02-11", check=False)] == [None, None]
    assert columns_of(local_world, "id, note") == [(1, None), (2, "x")]


def test_a_field_without_a_value_becomes_no_list(local_world: World) -> None:
    load(of(local_world, "json"), b'{"id":1,"s":{"a":null}}')
    with pytest.raises(SchemaError, match=r"field 's\.a' of main\.sales has had no value"):
        load(local_world, b'{"id":2,"s":{"a":[1]}}', SW)
    assert columns_of(local_world, "id, s") == [(1, {"a": None})]


@pytest.mark.parametrize("options", [{}, *more([{"rescue": "_r"}])], ids=str)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_number_that_is_too_large_for_a_decimal_is_no_other_one(
    local_world: World, form: str, options: dict[str, Any]
) -> None:
    numbers = ["3.5e28", "35000000000000000000000000000", "123456789012345678901234567890.5", "1e27", "0.5"]
    lines = [f"{n},{v}" if form == "csv" else f'{{"id": {n}, "v": {v}}}' for n, v in enumerate(numbers)]
    declared = {"columns": {"v": {"type": "DECIMAL(38,10)"}}, "on_bad_row": "dead_letter"}
    row = load(of(local_world, form, **declared, **options), "\n".join(["id,v"] * (form == "csv") + lines).encode())
    assert row.rows_dead_lettered == (0 if options else 3)
    assert columns_of(local_world, "v", "v IS NOT NULL") == [(Decimal("0.5"),), (Decimal("1e27"),)]


NOT_UTF8 = not_utf8(b"good", b"TREL\xc3", b"fin")
TEXTS_OF_BYTES: dict[str, tuple[pa.Array, object]] = {
    "plain": (NOT_UTF8, "good"),
    "dictionary": (pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), NOT_UTF8), "good"),
    "field": (pa.StructArray.from_arrays([NOT_UTF8], ["a"]), {"a": "good"}),
    "element": (pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), NOT_UTF8), ["good"]),
}


@pytest.mark.parametrize("mode", ["replace", *more(["append", "copy"])])
@pytest.mark.parametrize("what", TEXTS_OF_BYTES)
def test_a_text_that_is_not_utf8_is_a_bad_row(local_world: World, what: str, mode: str) -> None:
    values, good = TEXTS_OF_BYTES[what]
    body = parquet(pa.table({"id": [0, 1, 2], "note": values}))
    of(local_world, **({"copy": "always", "verify": "pages"} if mode == "copy" else {"mode": mode}))
    with pytest.raises(
        SchemaError, match=r"column .note. has a text that is not UTF-8|not UTF-8.*let its writer declare bytes"
    ):
        load(local_world, body)

    local_world.options |= {"on_bad_row": "dead_letter"}
    row = load(local_world, body)
    assert (row.row_count, row.rows_dead_lettered) == (2, 1)
    assert columns_of(local_world, "note", "id = 0") == [(good,)]
    (letter,) = Path(local_world.source["path"]).rglob("_dead_letters/**/*.parquet")
    assert r"TREL\xc3" in str(pq.read_table(letter, partitioning=None).column("note").to_pylist()).replace(r"\\", "\\")


def test_rescue_keeps_a_text_that_is_not_utf8(local_world: World) -> None:
    load(of(local_world, rescue="_r"), parquet(pa.table({"id": [0, 1, 2], "note": NOT_UTF8})))
    assert columns_of(local_world, "note, _r") == [
        ("fin", None),
        ("good", None),
        (None, '{"note": "TREL\\\\xc3"}'),
    ]
