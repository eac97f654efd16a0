"""Values in the names of files: what is read, listed and refused."""

import pytest

from lake_assets.errors import LayoutError
from lake_assets.layout.template import Template

FLAT = Template.root()


@pytest.mark.parametrize(
    ("files", "name", "values"),
    [
        ("sales_{date}_{region}.parquet", "sales_2026-02-11_NW.parquet", {"date": "2026-02-11", "region": "NW"}),
        (
            "sales_{date}_{region}.parquet",
            "sales_2026-02-11_N_Y.v2.parquet",
            {"date": "2026-02-11", "region": "N_Y.v2"},
        ),
        ("{region}_{date}_part-*.parquet", "NW_2026-02-11_part-0.parquet", {"region": "NW", "date": "2026-02-11"}),
        ("sales-{d,,YYYY}{d,,MM}{d,,DD}.parquet", "sales-20260211.parquet", {"d": "2026-02-11"}),
        # All that follows the region has one length, so the region may have the text between them.
        ("{region}_{d,,YYYY}-{d,,MM}.parquet", "NEW_YORK_2026-02.parquet", {"region": "NEW_YORK", "d": "2026-02"}),
        ("*_{date}.parquet", "sub/a_2026-02-11.parquet", None),
        ("sales_{date}.parquet", "sales_2026-02-11.parquet/part-0", None),
    ],
)
def test_a_name_is_read(files: str, name: str, values: dict[str, str] | None) -> None:
    assert FLAT.with_files(files).match(name, file=True) == values


@pytest.mark.parametrize(
    ("files", "values", "prefix", "glob"),
    [
        ("sales_{date}_{region}.parquet", {"date": "d", "region": "N"}, "sales_d_N.parquet", "sales_d_N.parquet"),
        ("sales_{date}_{region}.parquet", {"date": "d"}, "sales_d_", "sales_d_*.parquet"),
        ("sales_{date}_{region}.parquet", {"region": "N"}, "sales_", "sales_*_N.parquet"),
        ("{region}_{date}_*.parquet", {"date": "d", "region": "N_W"}, "N%5FW_d_", "N%5FW_d_*.parquet"),
    ],
)
def test_a_partition_is_listed_by_the_beginning_that_its_names_share(
    files: str, values: dict[str, str], prefix: str, glob: str
) -> None:
    flat, below = FLAT.with_files(files), Template.parse("landing/{batch}").with_files(files)

    assert (flat.prefix(values), flat.glob(values)) == (prefix, glob)
    assert below.prefix(values) == "landing/"
    assert below.prefix({"batch": "7", **values}) == f"landing/7/{prefix}"


def test_a_time_in_folders_and_names_is_one_value() -> None:
    template = Template.parse("{d,,YYYY}/{d,,MM}").with_files("sales-{d,,YYYY}{d,,MM}{d,,DD}.parquet")

    assert template.columns == ("d",)
    assert template.match("2026/02/sales-20260211.parquet") == {"d": "2026-02-11"}
    assert template.match("2026/03/sales-20260211.parquet") is None


def test_the_words_of_a_name_say_which_objects_are_data() -> None:
    assert FLAT.with_files("sales_{d,,YY}-{d,,MM}_{region}.parquet").words == "sales_*.parquet"
    assert FLAT.with_files("{region}_sales_{date}_*.parquet").words == "*_sales_*.parquet"


@pytest.mark.parametrize(
    ("files", "problem", "column"),
    [
        ("{a}{b}.parquet", "nothing separates these two values", 3),
        ("*{a}.parquet", "nothing separates these two values", 1),
        ("{a}0{b}.parquet", "this text does not mark the end of a value", 3),
        ("x/{a}.parquet", "the name of a file has no folders", 1),
        ("x_{a}", "the name ends in a value", 5),
        ("{a}_?.parquet", r"beside values, a pattern has no \? and \[ \]", 4),
        ("{a}_{now(),,YY}.parquet", r"now\(\) is for folders", 4),
    ],
)
def test_a_name_that_cannot_be_read_back_is_refused(files: str, problem: str, column: int) -> None:
    with pytest.raises(LayoutError, match=problem) as error:
        FLAT.with_files(files)
    assert str(error.value).splitlines()[2].index("^") == column + 2


def test_a_layout_whose_values_may_make_folders_has_no_names_of_files() -> None:
    for template in (Template.parse("{a,,}", nested=True), Template.parse("{a,,}", compat="olake")):
        with pytest.raises(LayoutError, match="a value may make folders"):
            template.with_files("{b}.parquet")
