import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.base.errors import PartitionError
from lake_assets.config.layout.hive import HIVE_NULL, escape
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionType

REGION_AND_DATE = (PartitionColumn("region", "string"), PartitionColumn("date", "date"))


@pytest.mark.parametrize("value", ["a,b", "a|b", "1..2", "..", "*", "last:7", "50%", "O'Hare", None])
def test_the_option_of_a_partition_is_read_back_as_it_and_selects_no_other(value: str | None) -> None:
    partition = Partition.from_values(REGION_AND_DATE, {"region": value, "date": dt.date(2026, 2, 11)})

    assert Partition.parse(REGION_AND_DATE, partition.option) == partition
    assert not {",", "|", "*"}.intersection(partition.option.partition("region=")[2].rpartition(",date")[0])
    assert ".." not in partition.option


@pytest.mark.parametrize(
    ("text", "value", "path"),
    [
        ("N/A x", "N/A x", "region=N%2FA x"),
        ("a=b", "a=b", "region=a%3Db"),
        ("O'Hare", "O'Hare", "region=O%27Hare"),
        ("ünïcode", "ünïcode", "region=ünïcode"),
        ("a%2Cb", "a,b", "region=a,b"),
        ("..", "..", "region=%2E%2E"),
        (HIVE_NULL, None, f"region={HIVE_NULL}"),
    ],
)
def test_awkward_values_survive_text_and_path(text: str, value: str | None, path: str) -> None:
    columns = REGION_AND_DATE[:1]
    partition = Partition.parse(columns, f"region={text}")

    assert partition.values == (value,)
    assert partition.path == path
    assert Partition.of(columns, partition.texts()) == partition


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_value_survives_its_path_and_is_shown_as_the_command_line_takes_it(value: str) -> None:
    column = PartitionColumn("region", "string")

    text, shown = column.text(value), column.shown(value)

    assert "/" not in text
    assert value == HIVE_NULL or column.parse(text) == value
    assert Partition.parse((column,), f"region={shown}").values == (value,)
    assert shown == value or set(value) & {",", "%"} or not value.isprintable()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("region=NW,date=20260211", "YYYY-MM-DD"),
        ("region=NW", "region=…,date=…"),
        ("region=NW,date=2026-02-11,city=X", "region, date"),
        ("NW", "column=value"),
        ("region=NW,region=SW,date=2026-02-11", "each column once"),
        ("region=,date=2026-02-11", HIVE_NULL),
        ("region=\udcff,date=2026-02-11", r"region='\xff' is not UTF-8"),
        ("\udcff=NW,date=2026-02-11", r"names \xff, "),
        ("\udcff", r"\xff"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(PartitionError) as refused:
        Partition.parse(REGION_AND_DATE, text)

    assert names in str(refused.value)
    str(refused.value).encode()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("year", {"2026": 2026, "0033": 33}),
        ("month", {"2026-02": "2026-02"}),
        ("week", {"2026-W53": "2026-W53", "0033-W01": "0033-W01"}),
        ("hour", {"2026-02-11-07": "2026-02-11-07"}),
        ("integer", {str(2**63 - 1): 2**63 - 1, str(-(2**63)): -(2**63), "0": 0}),
    ],
)
def test_a_value_is_written_in_one_way(kind: PartitionType, values: dict[str, object]) -> None:
    column = PartitionColumn("t", kind)
    for text, value in values.items():
        assert (column.parse(text), column.text(column.parse(text))) == (value, text)


@pytest.mark.parametrize(
    ("kind", "texts", "message"),
    [
        ("year", ["26", "12026", "x", "\uff12026"], "year.* such as 2026"),
        ("month", ["2026-2", "2026-13", "2026-02-11", "2026-\uff10\uff12"], "month.* such as 2026"),
        ("week", ["2026-07", "2026-W7", "2026-W00", "2025-W53", "2026W07", "2026-W07-1"], "YYYY-Www, such as 2026-W07"),
        ("hour", ["2026-02-11", "2026-02-11-24", "2026-02-11-7"], "hour.* such as 2026"),
        ("date", ["2026-02-1\u0661"], "is not of type date"),
        ("integer", ["20x6", "\uff11", "1\u0662", "\u00b2", "+1", " 1", "1 ", "1_0", "0x1", "1e3"], "in the digits 0"),
        (
            "integer",
            [str(2**63), str(-(2**63) - 1)],
            "write a number from -9223372036854775808 to 9223372036854775807, or use",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_is_written_otherwise_is_refused_with_its_form(
    kind: PartitionType, texts: list[str], message: str
) -> None:
    for text in texts:
        with pytest.raises(PartitionError, match=message):
            PartitionColumn("p", kind).parse(text)


def test_a_path_is_read_as_it_is_written() -> None:
    for region in ("NW", "a,b", "a/b", "O'Hare", "=", HIVE_NULL):
        partition = Partition.of(REGION_AND_DATE, {"region": escape(region), "date": "2026-02-11"})
        assert Partition.at(REGION_AND_DATE, partition.path) == partition
    swapped, ended, encoded = "date=2026-02-11/region=NW", "region=NW/date=2026-02-11/", "region=a%2Cb/date=2026-02-11"
    for path in ("", "region=NW", swapped, ended, encoded):
        with pytest.raises(PartitionError):
            Partition.at(REGION_AND_DATE, path)
