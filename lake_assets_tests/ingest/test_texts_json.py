"""`format: json`: documents in each form, nested fields, maps, and what is no record."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from lake_assets.errors import SchemaError, SourceError
from lake_assets_tests.ingest.landed_as import columns_of, load, small_sample  # noqa: F401 - a fixture
from lake_assets_tests.ingest.lettering import letters
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "tags": ["a", "b"], "place": {"x": 1.5, "on": "2026-02-11"}, "big": 123456789012345678901234567890},
    {"id": 2, "place": None, "note": 'say "hi"\nbye', "big": 2},
]


@pytest.fixture
def of_json(local_world: World) -> World:
    local_world.options = {"format": "json"}
    return local_world


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("\n".join(map(json.dumps, RECORDS)), id="lines"),
        pytest.param(json.dumps(RECORDS, indent=2), id="indented array"),
        pytest.param("\n".join(json.dumps(record, indent=1) for record in RECORDS), id="documents"),
        pytest.param("".join(map(json.dumps, RECORDS)), id="one line"),
        pytest.param(json.dumps(RECORDS), id="array", marks=pytest.mark.more),
        pytest.param("\ufeff" + json.dumps(RECORDS), id="marked", marks=pytest.mark.more),
        pytest.param(" ".join(map(json.dumps, RECORDS)) + "\n", id="spaced", marks=pytest.mark.more),
    ],
)
def test_json_becomes_a_table_in_each_form(of_json: World, body: str) -> None:
    load(of_json, body.encode())
    load(of_json, body.encode(), SW)

    assert columns_of(of_json, "id, tags, place, note, big", "region = 'SW'") == [
        (1, ["a", "b"], {"x": 1.5, "on": "2026-02-11"}, None, Decimal(123456789012345678901234567890)),
        (2, None, None, 'say "hi"\nbye', Decimal(2)),
    ]


def test_objects_of_json_are_maps_if_declared_so(of_json: World) -> None:
    kinds = {
        "m": "MAP(VARCHAR, DECIMAL(12,2))",
        "nested": "MAP(INTEGER, MAP(VARCHAR, DATE))",
        "of": "MAP(VARCHAR, STRUCT(x BIGINT))",
        "within": "STRUCT(m MAP(VARCHAR, BIGINT), l MAP(VARCHAR, BOOLEAN)[])",
    }
    of_json.options |= {"columns": {name: {"type": kind} for name, kind in kinds.items()}}
    body = (
        b'{"id": 1, "m": {"a": 1.25, "b": null}, "nested": {"7": {"d": "2026-02-11"}, "8": null},'
        b' "of": {"p": {"x": 1}}, "within": {"m": {"a": 1}, "l": [{"b": true}, null, {}]}}\n'
        b'{"id": 2, "m": null, "nested": {}}\n'
    )
    load(of_json, body)

    nested = {7: {"d": dt.date(2026, 2, 11)}, 8: None}
    within = {"m": {"a": 1}, "l": [{"b": True}, None, {}]}
    assert columns_of(of_json, "id, m, nested, of, within") == [
        (1, {"a": Decimal("1.25"), "b": None}, nested, {"p": {"x": 1}}, within),
        (2, None, {}, None, None),
    ]
    with pytest.raises(SchemaError, match=r"line 1 .* does not fit"):
        load(of_json, b'{"id": 3, "m": {"a": "x"}}\n{"id": 4, "m": {"a": 1}}\n', SW)
    of_json.options |= {"on_bad_row": "dead_letter"}
    row = of_json.ingest(SW).row
    assert (row.row_count, row.rows_dead_lettered) == (1, 1)


@pytest.mark.parametrize("late", ['"m": {"a": {"x": 1, "z": 2}}', *more(['"plain": {"x": 1, "z": 2}', '"z": 1'])])
def test_unknown_fields_beside_maps_are_refused_as_elsewhere(
    of_json: World,
    late: str,
    small_sample: int,  # noqa: F811
) -> None:
    kinds = {"m": "MAP(VARCHAR, STRUCT(x BIGINT))", "plain": "STRUCT(x BIGINT)"}
    of_json.options |= {"columns": {name: {"type": kind} for name, kind in kinds.items()}, "on_bad_row": "dead_letter"}
    good = b'{"m": {"a": {"x": 1}}, "plain": {"x": 1}}\n'
    count = small_sample // len(good)

    row = load(of_json, good * count + b"{%s}\n" % late.encode())

    assert (row.row_count, row.rows_dead_lettered) == (count, 1)
    assert "unknown field" in letters(of_json)[0]["_reason"]
    of_json.options |= {"rescue": "_rescued"}
    of_json.ingest(NW)
    assert columns_of(of_json, "count(*), count(_rescued)") == [(count + 1, 1)]


def test_new_fields_behind_the_sample_evolve_the_table_at_any_depth(of_json: World, small_sample: int) -> None:  # noqa: F811
    of_json.options |= {"schema_policy": "evolve"}
    many = b'{"place": {"x": 1}, "text": "%s"}\n' % (b"x" * 100) * (small_sample // 100)

    load(of_json, many + b'{"place": {"x": 2, "y": 3}, "late": {"n": 1}}\n')

    assert columns_of(of_json, "place, late", "late IS NOT NULL") == [({"x": 2, "y": 3}, {"n": 1})]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"id": 1}\n{"id": "x"}\n', "line 2 .* does not fit"),
        (b'{"id": 1}\n{"id": 2\n', "line 2 .* no JSON"),
        (b'{"id": 1}\n{"id": 2, "new": 1}\n', "'new'"),
        (b'[{"id": 1},\n {"id": 2}', "no JSON at line 2: there is neither a comma nor a bracket"),
        *more(
            [
                (b'{"id": 1}\n{"id": 2, "id": 3}\n', "line 2 .* twice"),
                (b'{"id": 1}\n[1]\n', "line 2 .* a JSON list, and not an object"),
                (b'[{"id": 1},\n {"id": ]', "no JSON at line 2"),
                (b'[{"id": 1}] x', "more behind the end"),
                (b'{"id": 1}\n{"id": ' + b"[" * 600 + b"]" * 600 + b"}\n", "line 2"),  # is nested too deeply
            ]
        ),
    ],
)
def test_bad_json_is_one_error_that_names_object_and_line(of_json: World, body: bytes, message: str) -> None:
    load(of_json, b'{"id": 0}\n')

    with pytest.raises(SourceError, match=message) as error:
        load(of_json, body)

    assert "a.json" in str(error.value)
    assert columns_of(of_json, "id") == [(0,)]


def test_dead_letters_of_json_have_the_object_as_it_was_landed(of_json: World) -> None:
    of_json.options |= {"on_bad_row": "dead_letter"}

    load(of_json, b'{"id": 1}\n\n{"id": "x"}\n{"id": 3}\n')

    (letter,) = letters(of_json)
    assert (letter["_line"], letter["_raw"]) == (3, '{"id": "x"}')
    assert columns_of(of_json, "id") == [(1,), (3,)]
