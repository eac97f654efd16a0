"""What YAML can do to a config is an error with file, line, column and how to fix it; `test_load.py` has the keys."""

import datetime as dt
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from lake_assets.base.errors import ConfigError
from lake_assets.config import document
from lake_assets.config.models import LakeConfig
from lake_assets.streams.load import load_config, parse_config

CONFIG = """\
lakes:
  retail:
    catalog: {type: sqlite, path: catalog.sqlite}
    storage: data
streams:
  sales:
    source: landing
    partitions:
      region: {values: [NW, SW]}
      date: {type: date, start: 2026-01-01}
    destination: {table: sales}
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{above}'] * 9)}]\n" for above, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{above}'] * 9)}]}}\n"
    for above, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def parsed(text: str, environment: dict[str, str] | None = None) -> LakeConfig:
    return parse_config(text, Path("lake.yaml"), environment or {})


def refused(text: str, environment: dict[str, str] | None = None) -> str:
    """What is said of the text, whichever of PyYAML's parsers a machine has."""
    told = []
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        with patch.object(document, "_Loader", loader), pytest.raises(ConfigError) as error:
            parsed(text, environment)
        told.append(str(error.value))
    assert told[0].rpartition(": ")[2] == told[1].rpartition(": ")[2]
    return told[0]


@pytest.mark.parametrize(
    ("added", "place", "told"),
    [
        ("max_partitions_per_run: !!int abc", "12:29", "does not fit the tag !!int: remove the tag"),
        ("description: !!binary aGk=", "12:18", "the tag !!binary means nothing here: remove it"),
        ("owners: !!python/object/apply:os.system [ls]", "12:13", "means nothing here: remove it"),
        ("tags: {{a: b}: c}", "12:12", "a key is a list or a mapping: write a text"),
        ("tags: {12: c}", "12:12", "streams.sales.tags: YAML does not read the key 12 as a text"),
        ("owners: &a [*a]", "12:17", "*a is part of what it repeats: write the value out"),
        ("owners: *nobody", "12:13", "there is no &nobody above"),
        ("owners: " + "[" * 3000 + "]" * 3000, "12:60", "more than 50 levels"),
        ('description: "\\ud800"', "12:", "half a surrogate pair"),
        ('description: "a\\0b"', "12:18", "a NUL character (\\0) is in the text: remove it"),
        ("description: a\0b", "12:19", "the character U+0000 cannot be in a config: remove it"),
        ("\tdescription: a", "12:5", "a tab: YAML is indented with spaces"),
        ("source: a", "12:5", "the key 'source' is here twice, first in line 7: remove one of them"),
        ("<<: {a: 1}\n    <<: {b: 1}", "13:5", "the key '<<' is here twice, first in line 12"),
        ("<<: text", "12:9", "<< merges mappings: write <<: *name"),
        ("description: a\n---\nlakes: {}", "13:1", "a second document begins here: put all into one"),
        ("description: a: b", "12:19", "put a text with ': ' in quotes"),
        ("description: %a", "12:18", "a text cannot begin with %: put it in quotes"),
        ("owners: [a, b", "12:13", "the list that opens in line 12 has no comma or end here"),
        ('description: "abc', "12:18", "the quote that opens in line 12 is not closed"),
        ('description: "\\q"', "12:", "a backslash in double quotes"),
        ("  description: a", "12:7", "indent it as they are"),
        ("max_partitions_per_run: 1:30", "12:29", "YAML reads 1:30 as 90: write 90, or '1:30' if it is a text"),
        ("max_partitions_per_run: " + "9" * 5000, "12:29", "a number of 5000 digits"),
        ("freshness: {fail_hours: on}", "12:17", "must be a number: write it in digits"),
        ("freshness: {fail_hours: .nan}", "12:17", "nan hours is outside 0.017"),
        ("landing: {buffer: {path: b, retention_days: .nan}}", "12:33", "must be 36500 or less"),
    ],
)
def test_a_yaml_error_has_its_position_and_the_fix(added: str, place: str, told: str) -> None:
    error = refused(f"{CONFIG}    {added}\n").splitlines()[0]

    assert error.startswith(f"lake.yaml:{place}"), error
    assert told in error


@pytest.mark.parametrize(
    ("old", "new", "place", "told"),
    [
        ("2026-01-01", "2026-13-01", "10:33", "there is no date or time '2026-13-01': correct it"),
        ("2026-01-01", "'2026-13-01'", "10:26", "must be a date: write it as 2026-01-31"),
        ("2026-01-01", "yes", "10:26", "must be a date"),
        ("[NW, SW]", "[007, NW]", "9:25", "YAML reads 007 as 7: write 7, or '007' if it is a text"),
        ("[NW, SW]", "[null, NW]", "9:16", "values must be texts or numbers"),
        ("[NW, SW]", "[2026-01-01T10:00:00Z]", "9:16", "is a time in YAML: put the value in quotes"),
        ("source: landing", "source: ~no_such_user/x", "7:5", "in the home folder of an unknown user: write the whole"),
        pytest.param(CONFIG, BOMB, "", "more than 50,000 keys and values, each alias counted", id="bomb"),
        pytest.param(CONFIG, MERGE_BOMB, "", "more than 50,000 keys and values", id="bomb of merges"),
        pytest.param(
            CONFIG, f"lakes: [{'a, ' * 60_000}]", "1:", "more than 50,000", id="long list", marks=pytest.mark.more
        ),
        (CONFIG, "", "1:1", "the file is empty: write lakes and streams, or run `lake-assets init`"),
    ],
)
def test_a_wrong_value_in_its_place_too(old: str, new: str, place: str, told: str) -> None:
    assert old in CONFIG
    error = refused(CONFIG.replace(old, new)).splitlines()[0]

    assert error.startswith(f"lake.yaml:{place}"), error
    assert told in error


def test_a_number_is_the_text_that_is_written() -> None:
    values = "[2026_01, 1.10, 12, +5, 009, 2026-01-01, 1e3]"
    stream = parsed(CONFIG.replace("[NW, SW]", values)).streams["sales"]

    assert stream.partitions["region"].values == ("2026_01", "1.10", "12", "+5", "009", "2026-01-01", "1e3")


def test_merge_keys_give_what_they_merge_and_the_mapping_goes_over_it() -> None:
    config = parsed(
        CONFIG.replace("  sales:", "  sales: &sales").replace("destination:", "group: a\n    destination:")
        + "  returns:\n    destination: {table: returns}\n    <<: *sales\n    group: b\n"
        + "  refunds:\n    <<: [{group: first}, {group: second, description: text}, *sales]\n"
        + "    destination: {table: refunds}\n"
    )

    sales, returns, refunds = (config.streams[name] for name in ("sales", "returns", "refunds"))
    assert returns.partitions == sales.partitions
    assert list(returns.partitions) == ["region", "date"]
    assert (returns.destination.table, returns.group) == ("returns", "b")
    assert (refunds.group, refunds.description, refunds.source) == ("first", "text", sales.source)
    assert refunds.partitions["date"].start == dt.date(2026, 1, 1)


def test_an_error_in_a_merged_mapping_has_the_line_that_it_is_in() -> None:
    text = CONFIG.replace("  sales:", "  sales: &sales").replace("type: date", "type: dat")

    error = refused(f"{text}  returns:\n    <<: *sales\n    destination: {{table: returns}}\n")

    assert [line.split(": ")[:2] for line in error.splitlines()] == [
        ["lake.yaml:10:14", "streams.returns.partitions.date.type"],
        ["lake.yaml:10:14", "streams.sales.partitions.date.type"],
    ]


def test_every_missing_variable_is_named_at_once_with_its_place() -> None:
    text = CONFIG.replace("data", "${A}").replace("landing", "${B}/${C}/${D:-d}").replace("[NW, SW]", "[NW, '${A}']")

    error = refused(CONFIG.replace("landing", "${FOLDER}"), {"FOLDER": "a\udcff"})
    assert error.startswith("lake.yaml:7:13: streams.sales.source: the environment's FOLDER is not UTF-8: set it")
    error = refused(text, {"B": "b"})
    assert [line.partition(":")[2].partition(": set")[0] for line in error.splitlines()] == [
        "4:14: lakes.retail.storage: the environment has no A",
        "7:13: streams.sales.source: the environment has no C",
        "9:29: streams.sales.partitions.region.values.1: the environment has no A",
    ]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (CONFIG.encode("utf-16"), "1:1: the file is not UTF-8: save it as UTF-8"),
        (CONFIG.encode("utf-16-le"), "1:2: not YAML: the character U+0000 cannot be in a config"),
        (CONFIG.encode() + "    description: café".encode("latin-1"), "12:21: the file is not UTF-8"),
        (b"\xef\xbb\xbf\xff", "1:1: the file is not UTF-8"),
        (CONFIG.encode() + b"#" * 2**20, "has more than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_text_is_refused(written: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    file.write_bytes(written)
    with pytest.raises(ConfigError) as error:
        load_config(file, {})

    assert str(error.value).startswith((f"{file}:{told}", f"config file {file} {told}"))


def test_a_file_of_another_system_is_read_and_a_folder_refused(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    for end in ("\r\n", "\r", "\n"):
        file.write_bytes(b"\xef\xbb\xbf" + CONFIG.replace("\n", end).encode())
        assert load_config(file, {}).streams["sales"].destination.table == "sales"
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})


def test_of_many_errors_the_first_are_printed_and_the_others_counted() -> None:
    lines = refused(CONFIG + "".join(f"    k{number}: 1\n" for number in range(5000))).splitlines()

    assert len(lines) == 51
    assert lines[0].startswith("lake.yaml:12:5: streams.sales.k0: unknown key")
    assert lines[-1] == "lake.yaml: 4,950 more errors after these."


@pytest.mark.more
@pytest.mark.parametrize(
    ("added", "told"),
    [
        (f"layout: '{'a{region}/' * 50_000}{{date}}'", "streams.sales.layout.template: is too long: leave 1000"),
        (f"schedule: '{'0-59,' * 100_000}1 * * * *'", "is not a cron schedule of five fields"),
        (f"landing: {{outputs: [{'a, ' * 40_000}]}}", "streams.sales.landing.outputs: has too many entries: leave 100"),
        (f"landing: {{columns: {{a: 'bigint{'[]' * 200_000}'}}}}", "more than 20 nested lists"),
        ("landing: {outputs: [{type: s3, bucket: abc, endpoint: 'http://[h'}]}", "and this one is malformed"),
        (f"tags: {{}}\nspark: {{a.b: '{'secret.' * 100_000}'}}", "a.b has more than 10000 characters"),
    ],
)
def test_what_would_take_long_to_check_is_refused(added: str, told: str) -> None:
    assert told in refused(f"{CONFIG}    {added}\n")


def test_what_is_very_long_is_shortened_in_its_error() -> None:
    long = "x " * 20_000

    assert len(refused(CONFIG.replace("table: sales", f"table: {long}"))) < 1500
    assert len(refused(f"{CONFIG}    ? {long}\n    : a\n")) < 1500
