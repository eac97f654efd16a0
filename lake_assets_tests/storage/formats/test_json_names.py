"""A field of JSON in another case is the column's, at any depth; two that are one are an error, or kept beside it."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.config.formats import JsonFormat
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import LocalStorage
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import WHOLE_OBJECT
from lake_assets.storage.formats.text_files import PEEKED

PLACE = pa.struct([("Id", pa.int64()), ("tags", pa.list_(pa.struct([("Key", pa.string())])))])
TABLE = pa.schema([("n", pa.int64()), ("userId", pa.string()), ("u", PLACE)])
PARTITION = Partition.of([PartitionColumn("key", "string")], {"key": "a"})
PLAIN = b'{"n": 1, "userId": "a", "u": {"Id": 1}}\n'

RULES = {
    "strict": Rules("strict"),
    "ignore_extra": Rules("ignore_extra"),
    "evolve": Rules("evolve"),
    "rescue": Rules("strict", rescue="_r"),
}


def read(body: bytes, rules: Rules, table: pa.Schema = TABLE) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of an object by the table's names, without what is NULL, and the reasons of its bad rows."""
    landed = LandingZone(LocalStorage(path="/landing"), rules=rules)
    text = replace(landed, form=JsonFormat()).open(pa.BufferReader(body), "o", table)
    names = [field.name for field in text.schema]
    good, reasons = list[dict[str, Any]](), list[str]()
    fitter = Fitter(text.schema, Target(table, Rules(splits=True)), PARTITION, "the object")
    for found in text.read(WHOLE_OBJECT, names, fitter, numbered=True):
        if isinstance(found, BadRows):
            reasons += found.reasons
        else:
            own = {name.lower(): name for name in table.names}
            rows = found.batch.to_pylist()
            good += [{own.get(name.lower(), name): v for name, v in row.items() if v is not None} for row in rows]
    return good, reasons


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("before", [b"", PLAIN * 20])
def test_a_field_in_another_case_is_the_column(rules: str, before: bytes) -> None:
    body = before + b'{"N": 2, "userID": "b", "U": {"id": 3, "TAGS": [{"key": "k"}, {"Key": "l"}]}}\n{"\\u004e": 4}\n'

    good, bad = read(body, RULES[rules])

    place = {"Id": 3, "tags": [{"Key": "k"}, {"Key": "l"}]}
    assert good[len(before) // len(PLAIN) :] == [{"n": 2, "userId": "b", "u": place}, {"n": 4}]
    assert not bad


TWICE = [
    ('{"userId": "a", "userID": "b"}', "userId", {"userId": "a"}, {"userID": "b"}),
    ('{"userID": "b", "userId": "a"}', "userId", {"userId": "a"}, {"userID": "b"}),
    ('{"u": {"ID": 4, "Id": 3}}', "Id", {"u": {"Id": 3, "tags": None}}, {"u": {"ID": 4}}),
    ('{"u": {"tags": [{"key": "k", "KEY": "l"}]}}', "Key", None, {"u": {"tags": [{"KEY": "l"}]}}),
]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("record", "name", "values", "rest"), TWICE, ids=["column", "order", "struct", "list"])
def test_two_fields_that_are_one_are_never_nothing(
    rules: str, record: str, name: str, values: dict[str, Any] | None, rest: dict[str, Any]
) -> None:
    good, bad = read(PLAIN * 3 + record.encode() + b"\n" + PLAIN, RULES[rules])

    if rules == "rescue":
        row = good.pop(3)
        assert json.loads(row.pop("_r")) == rest
        assert values is None or row == values
        assert not bad
    else:
        (reason,) = bad
        assert f"the field {name!r} is there twice" in reason
    assert len(good) == 4


def test_a_null_beside_a_value_of_the_same_field_is_no_second_one() -> None:
    assert read(b'{"userId": "a", "userID": null}\n', RULES["strict"]) == ([{"userId": "a"}], [])


def test_an_unknown_field_behind_the_sample_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.storage.formats.records._SAMPLE", 100)
    count = 2 * PEEKED // len(PLAIN)
    body = PLAIN * count + b'{"u": {"id": 1, "x": 2}}\n{"u": {"Id": 1, "y": {"z": 1}}}\n{"Z": {"a": 1}}\n'

    good, bad = read(body, RULES["strict"])

    assert len(good) == count
    assert [reason.partition(": ")[2] for reason in bad] == [f"unknown field {name!r}" for name in ("u.x", "u.y", "Z")]
    assert read(body, RULES["ignore_extra"])[0][count:] == [{"u": {"Id": 1, "tags": None}}] * 2 + [{}]


@pytest.mark.parametrize("rules", RULES)
def test_a_new_table_has_one_column_of_fields_in_any_case(rules: str) -> None:
    body = b'{"id": 1, "u": {"X": 1}}\n{"ID": 2, "u": {"x": 2}}\n{"Id": 3}\n'

    landed = LandingZone(LocalStorage(path="/landing"), rules=RULES[rules])
    schema = replace(landed, form=JsonFormat()).open(pa.BufferReader(body), "o", pa.schema([])).schema

    assert schema == pa.schema([("id", pa.int64()), ("u", pa.struct([("X", pa.int64())]))])
    good, bad = read(body, RULES[rules], schema)
    assert ([row["id"] for row in good], bad) == ([1, 2, 3], [])
    assert [row.get("u") for row in good] == [{"X": 1}, {"X": 2}, None]
