"""What is rendered is read back: for any template, any row."""

import datetime as dt
from collections.abc import Mapping

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.grammar import Static
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.config.layout.partition import PartitionColumn
from lake_assets.config.layout.template import Template
from lake_assets_tests.config.layout.strategies import TEXT_COLUMNS, TIME_COLUMNS, templates, times, values

rows = st.fixed_dictionaries({**dict.fromkeys(TEXT_COLUMNS, values), **dict.fromkeys(TIME_COLUMNS, times)})


def partition_texts(template: Template, row: dict[str, object]) -> dict[str, str]:
    """What `match` has to give for the row's path."""
    texts = {}
    for name in template.columns:
        value = row[name]
        if isinstance(value, dt.datetime):
            texts[name] = value.strftime(TIME_COLUMNS[name][1])
        else:
            texts[name] = PartitionColumn(name, "string").text(value or None)
    return texts


@given(templates(), rows)
def test_match_gives_the_values_that_were_rendered(text: str, row: dict[str, object]) -> None:
    template = Template.parse(text)
    path = template.render_row(row)
    expected = partition_texts(template, row)
    assert template.match(path) == expected
    assert template.match(f"{path}/part-0.parquet", file=True) == expected


@given(st.just("") | templates(), templates(of_files=True), rows, st.sampled_from(["", "0", "b-_.c"]), st.data())
def test_the_values_of_a_file_are_read_from_its_path_and_its_partition_is_listed_by_the_beginning(
    folders: str, files: str, row: dict[str, object], star: str, data: st.DataObject
) -> None:
    template = (Template.parse(folders) if folders else Template.root()).with_files(files)
    path = template.render_row(row).replace("*", star)
    texts = partition_texts(template, row)

    assert template.match(path) == texts
    assert template.match(f"x/{path}") != texts
    assert template.glob(texts).replace("*", star) == path
    sample = {name: texts[name] for name in data.draw(st.sets(st.sampled_from(template.columns)))}
    assert path.startswith(template.prefix(sample))
    stem = template.stem(path)
    assert stem is not None
    assert stem < path
    assert path.startswith(stem)


@given(templates(), rows)
def test_a_value_makes_no_folder_and_never_climbs(text: str, row: dict[str, object]) -> None:
    template = Template.parse(text)
    folders = template.render_row(row).split("/")
    assert len(folders) == 1 + sum(part.text.count("/") for part in template.parts if isinstance(part, Static))
    assert not {"", ".", ".."} & set(folders)
    assert not any(character < " " for character in "".join(folders))


@given(templates(), rows, st.data())
def test_the_prefix_of_a_partition_is_the_beginning_of_its_paths(
    text: str, row: dict[str, object], data: st.DataObject
) -> None:
    template = Template.parse(text)
    path = template.render_row(row)
    texts = partition_texts(template, row)
    assert template.prefix(texts) == f"{path}/"
    sample = {name: texts[name] for name in data.draw(st.sets(st.sampled_from(template.columns)))}
    assert f"{path}/".startswith(template.prefix(sample))


@given(templates(), st.lists(rows, max_size=8))
def test_a_table_renders_as_its_rows_do(text: str, table: list[dict[str, object]]) -> None:
    template = Template.parse(text)
    schema = pa.schema(
        [(name, pa.string()) for name in TEXT_COLUMNS] + [(name, pa.timestamp("us")) for name in TIME_COLUMNS]
    )
    paths = template.render(pa.Table.from_pylist(table, schema))
    assert paths.to_pylist() == [template.render_row(row) for row in table]


@given(st.lists(st.text("ab=/-", max_size=6), min_size=2, max_size=2))
def test_a_nested_value_is_read_back_where_a_name_follows(pair: list[str]) -> None:
    template = Template.parse("x={a}/y={b}", nested=True)
    path = template.render_row({"a": pair[0], "b": pair[1]})
    assert not {"", ".", ".."} & set(path.split("/"))
    match = template.match(f"{path}/")
    assert match is not None
    assert {name: PartitionColumn(name, "string").parse(text) for name, text in match.items()} == {
        "a": pair[0] or None,
        "b": pair[1] or None,
    }


def matched(template: Template, path: str) -> Mapping[str, str] | None:
    """The values of the path; None if there are none, or none in UTF-8."""
    try:
        return template.match(path)
    except LayoutError as error:
        if "not in UTF-8" not in str(error):
            raise
        return None


@given(st.text(max_size=30))
def test_any_path_is_read_or_refused_and_a_read_one_is_where_its_partition_is_listed(path: str) -> None:
    template = Template.parse("k={a}/{ts,,YY}-{ts,,MM}")
    for candidate in (path, f"k={path}/2026-02", f"k={path}/default_ts-default_ts/x"):
        result = matched(template, candidate)
        if result is None:
            continue
        prefix = template.prefix(result)
        assert template.match(prefix) == result
        assert HIVE_NULL not in prefix or result["a"] == HIVE_NULL
