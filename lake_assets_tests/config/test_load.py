from pathlib import Path
from unittest.mock import Mock, call

import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.config.lake import PostgresCatalog
from lake_assets.config.layout import grammar
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage, S3Storage
from lake_assets.streams.load import load_config, parse_config

FILE = Path("/etc/lake/lake.yaml")

GOOD = """
lakes:
  retail:
    catalog: {type: sqlite, path: catalog.sqlite}
    storage: data
streams:
  sales:
    source: s3://landing/sales
    partitions:
      region: {values: [NW, "NO"]}
      date: {type: date, start: 2026-01-01}
    destination: {table: sales}
"""


def parsed(text: str) -> LakeConfig:
    """The config of a text, which is itself again after JSON."""
    config = parse_config(text, FILE, {})
    assert LakeConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config
    return config


def refused(text: str) -> str:
    """What is said of a text that is no config."""
    with pytest.raises(ConfigError) as error:
        parse_config(text, FILE, {})
    return str(error.value)


def test_paths_are_relative_to_the_file_and_short_forms_are_taken() -> None:
    config = parse_config(GOOD, FILE, {})

    lake, stream = config.lakes["retail"], config.streams["sales"]
    assert lake.storage == LocalStorage(path="/etc/lake/data")
    assert stream.source == S3Storage(bucket="landing", prefix="sales")
    assert stream.partition("region=NO,date=2026-01-01").path == "region=NO/date=2026-01-01"


def test_paths_are_relative_to_the_folder_in_which_the_file_is_named_also_as_a_link(tmp_path: Path) -> None:
    """As in a volume of Kubernetes: `lake.yaml` leads to `..data/lake.yaml`, and `..data` to a folder with a date."""
    data = tmp_path / "..2026_11_29"
    data.mkdir()
    (data / "lake.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "lake.yaml").symlink_to("..data/lake.yaml")

    assert load_config(tmp_path / "lake.yaml").lakes["retail"].storage == LocalStorage(path=str(tmp_path / "data"))


def test_paths_are_relative_to_the_folder_of_the_file() -> None:
    outputs = "table: sales}}\n    landing: {{outputs: [copy, {}]}}"

    with pytest.raises(ConfigError, match=r"lake.yaml:13:15: streams.sales.landing.outputs: .*copy is named twice"):
        parse_config(GOOD.replace("table: sales}", outputs.format("/etc/lake/copy")), FILE, {})
    here = parse_config(GOOD.replace("table: sales}", outputs.format(Path("copy").absolute())), FILE, {})

    assert here.streams["sales"].landing is not None
    assert [output.root for output in here.streams["sales"].landing.outputs] == [
        "/etc/lake/copy",
        str(Path("copy").absolute()),
    ]


def test_a_config_is_validated_once_and_a_layout_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of streams most have the same layout."""
    parse = Mock(wraps=grammar.parse_template)
    monkeypatch.setattr(grammar, "parse_template", parse)
    again = GOOD.partition("streams:\n")[2].replace("sales", "again")

    config = parse_config(f"{GOOD}{again}".replace("region:", "district:"), FILE, {})

    assert parse.call_args_list == [call("district={district}/date={date}")]
    assert config.streams["again"].template is config.streams["sales"].template


def test_the_file_is_that_of_the_environment_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="LAKE_CONFIG"):
        load_config(tmp_path / "lake.yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake.yaml").write_text(GOOD)

    assert "sales" in load_config(None, {"LAKE_CONFIG": ""}).streams


def test_the_environment_fills_variables_and_secrets_do_not_show() -> None:
    text = GOOD.replace(
        "{type: sqlite, path: catalog.sqlite}",
        "{type: postgres, database: '${DB:-lake}', user: me, password: '${SECRET}'}",
    )
    config = parse_config(text, FILE, {"SECRET": 'it\'s a "secret"'})

    catalog = config.lakes["retail"].catalog
    assert isinstance(catalog, PostgresCatalog)
    assert catalog.database == "lake"
    assert catalog.password is not None
    assert catalog.password.get_secret_value() == 'it\'s a "secret"'
    assert "it's" not in repr(config)


@pytest.mark.parametrize(
    ("text", "environment", "root"),
    [
        ("${X:-/lake}/d", {}, "/lake/d"),
        ("${X:-/lake}/d", {"X": ""}, "/lake/d"),
        ("${X:-/lake}/d", {"X": "/y"}, "/y/d"),
        ("/d${X}", {"X": ""}, "/d"),
        ("${X}", {"X": "/${Y"}, "/${Y"),  # a value of the environment is not read again
    ],
)
def test_a_variable_has_its_value_or_its_default(text: str, environment: dict[str, str], root: str) -> None:
    config = parse_config(GOOD.replace("storage: data", f"storage: {text}"), FILE, environment)

    assert config.lakes["retail"].own_storage.root == root


def test_what_is_no_variable_is_refused_with_its_line() -> None:
    told = r"lake.yaml:5:14: lakes.retail.storage: \$\{ begins no variable.*\$\{NAME:-default"
    for text in ("${ROOT-/data}", "/data/${ROOT", "${1st}", "${}", "${A:?gone}", "${A:-${B}}", "${A B}"):
        with pytest.raises(ConfigError, match=told):
            parse_config(GOOD.replace("storage: data", f"storage: '{text}'"), FILE, {"A": "", "B": "", "ROOT": "x"})


def test_a_variable_in_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lake.yaml:7:3: streams: the key '\$\{NAME\}' has a variable"):
        parse_config(GOOD.replace("  sales:\n", "  ${NAME}:\n"), FILE, {"NAME": "sales"})


def test_numbers_and_booleans_of_yaml_are_texts_where_only_texts_can_be() -> None:
    text = GOOD + "    tags: {tier: 1, live: true}\nspark: {spark.ui.enabled: no, spark.task.cpus: 2, x.share: 0.5}\n"

    config = parse_config(text, FILE, {})

    assert config.streams["sales"].tags == {"tier": "1", "live": "true"}
    assert config.spark.settings == {"spark.ui.enabled": "false", "spark.task.cpus": "2", "x.share": "0.5"}


def test_a_wrong_secret_is_not_repeated_in_its_error() -> None:
    error = refused(GOOD.replace("storage: data", "storage: {type: s3, bucket: b-1, secret: [hunter2]}"))

    assert "secret" in error
    assert "hunter2" not in error


def test_the_production_config_is_valid() -> None:
    file = Path(__file__).parents[2] / "deploy" / "lake.yaml"
    environment = {"LAKE_CATALOG_PASSWORD": "x", "LAKE_BUCKET": "lake", "LANDING_BUCKET": "landing"}

    config = load_config(file, environment)

    assert config.streams["transactions"].source == S3Storage(bucket="landing", prefix="transactions")


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param(
            {"orders": ["sales"]},
            "stream orders has sales in previously, and sales is a stream of the config: remove it.",
            id="other",
        ),
        pytest.param(
            {"sales": ["sales"]},
            "stream sales has sales in previously, and sales is a stream of the config: remove it.",
            id="own",
        ),
        pytest.param(
            {"sales": ["till"], "orders": ["till"]},
            "streams sales and orders both have till in previously: remove it from one of them.",
            id="both",
        ),
    ],
)
def test_a_name_is_of_one_stream(names: dict[str, list[str]], problem: str) -> None:
    stream = GOOD.partition("  sales:\n")[2]
    text = f"{GOOD}  orders:\n{stream.replace('{table: sales}', '{table: orders}')}"
    for name, previously in names.items():
        text = text.replace(f"  {name}:\n", f"  {name}:\n    previously: {previously}\n")
    assert problem in refused(text)


def test_a_stream_may_have_had_other_names() -> None:
    text = GOOD.replace("    source:", "    previously: [till, shop_sales]\n    source:")
    assert parsed(text).streams["sales"].previously == ("till", "shop_sales")
