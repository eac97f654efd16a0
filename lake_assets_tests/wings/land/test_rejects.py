"""Records that do not fit, each with its reason, beside those that land."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.wings.land.streams import (
    COLUMNS,
    GOOD,
    PARTITIONS,
    land_text,
    landed_ids,
    rejects,
    rows,
    stream_of,
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "no JSON"),
        ("[1, 2]", "a JSON list"),
        (GOOD + "x", "no JSON"),
        (
            '{"region":"NW","date":"2026-02-11","id":"one"}',
            """field 'id' has the value "one", which int64 cannot hold""",
        ),
        ('{"region":"NW","date":"2026-02-11","id":1.5}', "field 'id' has the value 1.5, which int64 cannot hold"),
        ('{"region":"NW","date":"2026-02-11","id":1,"id":2}', "twice"),
        ('{"region":"NW","date":"2026-02-11","nickname":"x"}', "unknown field 'nickname'"),
        (
            '{"region":"NW","date":"2026-02-30","id":1}',
            """field 'date' has the value "2026-02-30", which date32[day] cannot hold""",
        ),
        ('{"region":"NW","date":"2025-12-31","id":1}', "partition value date=2025-12-31 is before start 2026-01-01"),
        ('{"region":"NW","id":1}', "partition value date is NULL, and the column has the type date"),
        ('{"region":' + "[" * 100_000 + "]" * 100_000 + "}", "no JSON: maximum recursion"),
    ],
)
def test_a_record_that_does_not_fit_is_rejected_and_the_others_land(tmp_path: Path, line: str, reason: str) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join([GOOD, "", line, GOOD.replace('"id":1', '"id":2')]))

    writer = land_text(stream_of(tmp_path / "out"), source)

    assert landed_ids(tmp_path / "out") == [1, 2]
    (reject,) = rejects(tmp_path / "out")
    assert reason in reject["reason"]
    assert (reject["source"], reject["line"], reject["record"]) == (str(source), 3, line)
    landed = writer.landed()
    assert (landed.records, landed.rejected, landed.lost) == (2, 1, 0)


@pytest.mark.parametrize("before", ["", "bad\n"], ids=["a whole block", "lines tried again"])
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_record_of_no_partition_keeps_its_line_and_its_text(tmp_path: Path, form: str, before: str) -> None:
    source = tmp_path / f"in.{form}"
    head = "total,id,date,region\n" if form == "csv" else ""
    line = {"csv": "{},{},{},NW", "jsonl": '{{"total": {}, "id": {},"date":"{}","region": "NW" }}'}[form]
    dates = ["2026-02-11", "2025-12-31", "2026-02-12", "2025-12-30"]
    lines = [line.format("1.50", number, date) for number, date in enumerate(dates)]
    source.write_text(head + before + "\n".join(lines))

    land_text(stream_of(tmp_path / "out"), source)

    first = f"{head}{before}".count("\n") + 1
    found = [(reject["line"], reject["record"]) for reject in rejects(tmp_path / "out") if reject["record"] != "bad"]
    assert found == [(first + 1, lines[1]), (first + 3, lines[3])]
    assert landed_ids(tmp_path / "out") == [0, 2]


@pytest.mark.parametrize("compat", [None, "olake"])
def test_a_text_that_is_no_time_is_the_reason(tmp_path: Path, compat: str | None) -> None:
    stream = stream_of(
        tmp_path,
        layout={"template": "{ts,,YY}-{ts,,MM}-{ts,,DD}", "compat": compat},
        partitions={"date": {"type": "date", "start": "2026-01-01", "from": "ts"}},
        columns={"ts": "string", "id": "bigint"},
    )
    with LandingWriter("sales", stream) as writer:
        writer.write(pa.table({"ts": ["2026-02-11 10:00:00", "soon", None], "id": [1, 2, 3]}))

    assert [reject["reason"] for reject in rejects(tmp_path)] == [
        "column 'ts' has the value 'soon', which is not a time",
        "partition value date is NULL, and the column has the type date",
    ]


def test_bytes_that_are_no_text_are_rejected(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    noted = GOOD.replace("}", ',"note":"café"}')
    source.write_bytes(noted.encode() + b"\n" + noted.encode("latin-1") + b"\n")

    land_text(stream_of(tmp_path / "out", columns=COLUMNS | {"note": "string"}), source)

    assert landed_ids(tmp_path / "out") == [1]
    (reject,) = rejects(tmp_path / "out")
    assert "UTF8" in reject["reason"] or "utf-8" in reject["reason"]
    assert reject["record"] == noted.replace("é", "\\xe9")


def test_a_region_that_the_stream_does_not_have_is_rejected(tmp_path: Path) -> None:
    """Also beside columns of Arrow's views, which it cannot take rows of."""
    regions = {"region": {"values": ["NW", "N/A"]}}
    stream = stream_of(tmp_path / "out", partitions=PARTITIONS | regions, columns=None)
    records = pa.concat_tables([rows(0, 3), rows(3, 2, "XX"), rows(5, 1, "N/A")])
    views = pa.struct([("tags", pa.list_(pa.string_view())), ("raw", pa.binary_view())])
    values = [{"tags": [str(n)], "raw": b"x"} for n in range(6)]
    with LandingWriter("sales", stream) as writer:
        writer.write(records.append_column("v", pa.array(values, views)))

    assert landed_ids(tmp_path / "out") == [0, 1, 2, 5]
    assert [json.loads(reject["record"])["id"] for reject in rejects(tmp_path / "out")] == [3, 4]
    assert rejects(tmp_path / "out")[0]["reason"] == "partition value region=XX is not in `values` (NW, N/A)"


def test_arrow_values_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    partitions = {"p": {"type": "integer"}}
    stream = stream_of(tmp_path, partitions=partitions, columns={"p": "string", "id": "bigint"})
    with LandingWriter("sales", stream) as writer:
        writer.write(pa.table({"p": ["7", "07", "7"], "id": ["1", "2", "two"]}))  # 07 is in another folder than 7

    assert landed_ids(tmp_path) == [1]
    reasons = sorted((reject["reason"] for reject in rejects(tmp_path)), key=lambda reason: "'two'" in reason)
    assert "p=7" in reasons[0]
    assert "id: Failed to parse string: 'two'" in reasons[1]


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("year", ["2025", "2026"], ["2024", "2027"]),
        ("month", ["2025-11", "2026-02"], ["1999-01", "2025-10", "2026-03"]),
        ("date", ["2025-11-20", "2026-02-10"], ["2025-11-19", "2026-02-11"]),
        ("hour", ["2025-11-20-00", "2026-02-10-23"], ["2025-11-19-23", "2026-02-11-00"]),
    ],
)
def test_a_time_before_the_start_or_after_the_end_is_rejected(
    tmp_path: Path, type_: str, good: list[str], bad: list[str]
) -> None:
    partitions = {"at": {"type": type_, "start": "2025-11-20", "end": "2026-02-10"}}
    stream = stream_of(tmp_path, partitions=partitions, columns={"at": "string", "id": "bigint"})
    texts = [*good, *bad, None]
    with LandingWriter("sales", stream) as writer:
        writer.write(pa.table({"at": texts, "id": range(len(texts))}))

    assert landed_ids(tmp_path) == list(range(len(good)))
    assert [reject["reason"] for reject in rejects(tmp_path)] == [
        *(
            f"partition value at={text} is {'before start 2025-11-20' if text < good[0] else 'after end 2026-02-10'}"
            for text in bad
        ),
        f"partition value at is NULL, and the column has the type {type_}",
    ]
