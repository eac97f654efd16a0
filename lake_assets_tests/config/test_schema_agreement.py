"""What `validate` takes the JSON Schema takes, as it is written: an editor and `dg check yaml` mark only faults."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pendulum
import pytest
import yaml
from dagster_shared.yaml_utils import DagsterYamlLoader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lake_assets.base.errors import ConfigError, LayoutError
from lake_assets.config.editor_schema import LAYOUT, TIME_ZONE
from lake_assets.config.layout.template import Template
from lake_assets.config.models import LakeConfig
from lake_assets.streams.load import parse_config
from lake_assets_tests.config.layout.strategies import templates

# Every key of the config that can be, in its long form.
WRITTEN = """\
lakes:
  shop:
    catalog: {type: postgres, database: lake, host: db, port: 5432, user: me, password: x, connect_timeout: 10}
    storage: {type: s3, bucket: lake, prefix: x, region: eu, endpoint: "http://localhost:8333", key_id: k, secret: s,
              session_token: t, anonymous: false,
              requests: {retries: 3, first_wait: 0.5, longest_wait: 2, connect_timeout: 5, timeout: 60,
                         multipart_threshold: 16MiB}}
    attach_options: {metadata_schema: meta, busy_timeout: 3, override_data_path: true, metadata_parameters: {a: 1}}
    ledger: runs
    manifest: files
    ledger_schema: main
    commit_retries: 3
    maintenance: {cron: "0 3 * * *", time_zone: UTC, expire_older_than: 7, delete_older_than: 1.5,
                  orphans_older_than: 3, compact: 10}
  secret:
    catalog: {type: sqlite, path: secret.sqlite}
    storage: {type: azure, account: shop, container: lake, prefix: x, account_key: a2V5}
    staging: {type: gcs, bucket: staging, prefix: x, key_id: k, secret: s}
    attach_options: {encrypted: true}
  ducks:
    catalog: {type: motherduck, database: ducks, store_secret: true}
    storage: {type: r2, account_id: a1, bucket: lake, key_id: k, secret: s}
  files:
    catalog: {type: duckdb, path: files.duckdb}
    storage: {type: local, path: data}
streams:
  sales:
    lake: shop
    source: {type: s3, bucket: landing, prefix: x, provider: credential_chain}
    layout: {template: "r={region}/{date,,YYYY}/{date,,MM}/{date,,DD}/h={hour}", time_zone: Europe/Berlin,
             nested: false}
    files: "*.parquet"
    partitions:
      region: {type: string, values: [NW, 12, "NO", 1.5], empty: refuse}
      date: {type: day, start: 2026-01-01, end: "2026-12-31"}
    path_columns: {hour: integer}
    destination: {schema: main, table: sales}
    mode: replace
    transform: {sql: SELECT * FROM source}
    schema_policy: evolve
    on_bad_object: quarantine
    on_bad_row: dead_letter
    dead_letters: {to: {type: s3, bucket: letters, prefix: x, key_id: k, secret: s}, plaintext: false}
    on_empty: keep
    compression: snappy
    target_file_size: 128MiB
    time_zone: Europe/Berlin
    schedule: {cron: "15 6 * * *", time_zone: UTC, lookback: 2, status: stopped}
    automation: {cron: "*/10 * * * *", time_zone: UTC, lookback: 3}
    freshness: {fail_hours: 30, warn_hours: 26.5, newest_partition_hours: 30}
    checks: {skip: [ledger], blocking: [row_counts, mine], sql: {mine: SELECT 1}}
    max_partitions_per_run: 10
    tags: {tier: 1, live: true}
    sensor: {type: sqs, interval: 30, max_runs: 3, lookback: 2, budget: 20, status: running, region: eu, wait: 1,
             queue_url: "https://host/account/queue", messages: 10}
    landing:
      columns: {id: bigint, amount: "decimal(10,2)", region: string, date: date, hour: integer}
      batch: {records: 10, bytes: 1048576, age: 1.5}
      memory: 10MB
      outputs: [out, {type: local, path: x}]
      max_in_flight: 3
      multipart_threshold: 6MiB
      retries: 2
      buffer: {path: buffer, retention_days: 2}
      node: n1
      drain: "@hourly"
    description: text
    owners: ["me@example.com", "team:x"]
    kinds: [a, b]
    group: g
    key_prefix: raw/sales
  short:
    lake: files
    source: "/data/short/region=*/*.parquet"
    partitions: {region: {}}
    destination: {table: short}
    mode: index
    owns_source: true
    schedule: "15 * * * *"
    automation: "*/10 * * * *"
    sensor: {scan: 2000}
  parts:
    lake: files
    source: landing/parts
    layout: "date={ts,,YYYY}-{ts,,MM}-{ts,,DD}/k={kind}"
    partitions: {date: {type: date, from: ts, start: 2026-01-01}, k: {from: kind, in: path}}
    destination: {table: parts}
    sensor: {type: objects}
  rows:
    lake: secret
    source: https://example.com/x
    files: all.parquet
    layout: "y={year}"
    partitions: {year: {type: year, start: 2020-01-01}, kind: {values: [a], in: rows}}
    destination: {table: rows}
key_prefix: [retail, eu-1]
spark: {master: "spark://host:7077", spark.task.cpus: 3, spark.ui.enabled: false}
runs: {launcher: spark_submit, command: /opt/spark/bin/spark-submit, }
"""

# What may be written for a value, as YAML has it; two spaces are between them.
FORMS = """
~  ""  yes  NO  on  true  False  0  1  -1  3  12  1.5  2.0  1e3  1.0e+3  .inf  .nan  1_000  010  1:30  0x1F
99999999999999999999  "5"  " 5 "  "5.0"  "1_000"  "+5"  "1e3"  "inf"  "true"  "T"  "YES"  "off"  "0"  "x1"  2026-01-01
"2026-01-01"  2026-01-01T00:00:00  "2026-01-01T00:00:00"  "2026-01-01 00:00"  "2026-1-1"  "86400"  86400
2026-02-01T10:00:00Z  []  {}  [a]  [1]  [NW,~]  {a: b}  ${FIVE}  "${FIVE}"  ${FIVE:-7}  ${NONE:-5}  ${NONE:-}  ${YES}
${DATE}  ${TEXT}  x${FIVE}  ${SIZE}  ${WORD}  a  "a b"  "é"  main  sales  10MB  "10 mib"  ".5MB"  1MiB  "5"  -5MB
5lightyears  "@daily"  "0 0 * * *"  "0 0 L * *"  "60 * * * *"  UTC  Europe/Berlin  europe/berlin  posix/UTC  +01:00
EST  localtime  s3://bucket/x  gs://bucket/x  r2://a/bucket/x  /data  data  ~/data  ~nobody/x
abfss://c@account.dfs.core.windows.net/x  http://host/x  https://host/x  s3://bucket/*/x  "*"  "{region}"  "{region"
"{date,,YYYY}"  "{ts}"  "{'a,b'}"  "d={now(),,DD}"  {type: local}  {type: s3, bucket: abc}
{type: "${S3}", bucket: abc}  {type: objects}  {cron: "0 * * * *"}  {cron: "${CRON}", lookback: "3"}  {sql: SELECT 1}
{function: a.b:c}  team:x  a@b.cd  string  day  hour  "${DAY}"  decimal(1,1)  bigint[]  {type: integer}
{type: day, from: ts}  __HIVE_DEFAULT_PARTITION__  "AccountName=a;AccountKey=k"
"""
ENVIRONMENT = {
    "FIVE": "5", "YES": "yes", "DATE": "2026-02-01", "TEXT": "text", "SIZE": "128MiB", "WORD": "evolve", "S3": "s3",
    "CRON": "0 * * * *", "DAY": "day", "LEDGER": "ledger",
}  # fmt: skip
MARK = "\x1a"
FILE = Path("/etc/lake/lake.yaml")

SCHEMA = jsonschema.Draft202012Validator(LakeConfig.model_json_schema())


def accepted(text: str, environment: dict[str, str]) -> bool:
    try:
        parse_config(text, FILE, environment)
    except ConfigError:
        return False
    return True


def refusals(text: str) -> list[str]:
    """What the schema says of the text, read as Dagster does."""
    data = yaml.load(text, Loader=DagsterYamlLoader)
    return [f"{error.json_path}: {error.message}" for error in SCHEMA.iter_errors(json.loads(json.dumps(data)))]


def test_the_schema_is_one_and_takes_the_config() -> None:
    jsonschema.Draft202012Validator.check_schema(LakeConfig.model_json_schema())

    assert accepted(WRITTEN, {})
    assert refusals(WRITTEN) == []


def leaves(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        yield from leaves(item, (*place, key))
    if not isinstance(data, dict | list):
        yield place


def at(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        data = data[key] if isinstance(data, list) or key in data else None
        if not isinstance(data, dict | list):
            return data
    return data


def written(edits: list[tuple[tuple[Any, ...], str]]) -> str:
    """The config with these values in these places, as they are written."""
    data = yaml.load(WRITTEN, Loader=DagsterYamlLoader)
    for number, (place, _) in enumerate(edits):
        parent = at(data, place[:-1])
        if isinstance(parent, dict) or (isinstance(parent, list) and place[-1] < len(parent)):
            parent[place[-1]] = f"{MARK}{number}{MARK}"
    text = json.dumps(data)
    for number, (_, form) in enumerate(edits):
        text = text.replace(json.dumps(f"{MARK}{number}{MARK}"), f" {form} ")
    return text


DATA = yaml.load(WRITTEN, Loader=DagsterYamlLoader)


@st.composite
def edits(draw: st.DrawFn) -> tuple[tuple[Any, ...], str]:
    """A key of the config, and what is written there: in most cases what its type may take."""
    place = draw(st.sampled_from(list(leaves(DATA))))
    forms = st.sampled_from(re.split(r" {2}|\n", FORMS.strip())) | st.text(max_size=8).map(json.dumps)
    match at(DATA, place):
        case bool():
            forms |= st.sampled_from(["true", "no", "1", "0", '"Yes"', '"0"', "${YES}"])
        case int() | float():
            numbers = st.integers(0, 300)
            forms |= numbers.flatmap(lambda n: st.sampled_from([f"{n}", f'"{n}"', f"{n}.0", f"${{N:-{n}}}"]))
        case _:
            forms |= st.text("ab1_", min_size=1, max_size=5).map(json.dumps)
    return place, draw(forms)


@pytest.mark.more
@settings(suppress_health_check=list(HealthCheck))
@given(edits())
def test_what_validate_takes_the_schema_takes(edit: tuple[tuple[Any, ...], str]) -> None:
    text = written([edit])
    if accepted(text, ENVIRONMENT):
        assert refusals(text) == []


@pytest.mark.parametrize("form", ['"{}"', "'{}'", '"${{VALUE_{}}}"', '"${{NONE:-{}}}"'])
def test_every_value_may_be_a_variable_and_in_quotes(form: str) -> None:
    """All at once: numbers, dates, booleans, words, types, names and templates."""
    environment, changed = {}, []
    for number, place in enumerate(leaves(DATA)):
        value = at(DATA, place)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if "attach_options" in place or ("NONE" in form and "}" in text):
            continue  # DuckLake's own options have types, and no default can hold a bracket
        environment[f"VALUE_{number}"] = text
        changed.append((place, form.format(number if "VALUE" in form else text)))
    text = written(changed)

    assert parse_config(text, FILE, environment) == parse_config(WRITTEN, FILE, {})
    assert refusals(text) == []


@pytest.mark.parametrize(
    ("place", "form"),
    [
        (("streams", "sales", "schedule"), "3"),
        (("streams", "sales", "schedule", "lookback"), "soon"),
        (("streams", "sales", "partitions", "region", "values"), "[~]"),
        (("streams", "sales", "partitions", "date", "type"), "dat"),
        (("streams", "sales", "target_file_size"), "big"),
        (("streams", "sales", "time_zone"), "Europe/Nowhere"),
        (("streams", "sales", "destination", "table"), '"a b"'),
        (("streams", "sales", "key_prefix"), "a//b"),
        (("lakes", "shop", "catalog", "type"), "oracle"),
    ],
)
def test_the_schema_still_refuses_what_is_wrong_in_one_key(place: tuple[Any, ...], form: str) -> None:
    text = written([(place, form)])

    assert not accepted(text, {})
    assert refusals(text)


def fits(text: str) -> bool:
    return re.search(LAYOUT["pattern"], text) is not None


@given(templates())
def test_every_layout_fits(text: str) -> None:
    assert fits(text)


@given(st.text("{{}},'aéYDH/=-()* ", max_size=12))
def test_a_text_that_does_not_fit_is_no_layout(text: str) -> None:
    if not fits(text):
        with pytest.raises(LayoutError):
            Template.parse(text)


def test_a_malformed_layout_does_not_fit_and_one_with_variables_or_quotes_does() -> None:
    malformed = ["{region/{date}", "{region", "region}", "{a,b,c}", "{a,b,YY,}", "{a,b,yy}", "", "region=*/{date}"]
    assert [text for text in malformed if fits(text)] == []
    assert all(map(fits, ["${LAYOUT}", "{{ env.LAYOUT }}", "raw/${DEPTH:-{region}}", "{'a,{b}''(c)',,YYYY}"]))


def test_every_zone_that_the_schema_names_exists() -> None:
    zones = TIME_ZONE["anyOf"][0]["enum"]

    assert {"UTC", "Europe/Berlin", "US/Pacific"} <= set(zones)
    assert all(pendulum.timezone(zone) for zone in zones)
    assert (
        LakeConfig.model_json_schema()["$defs"]["StreamConfig"]["properties"]["time_zone"]["anyOf"][0]["enum"] == zones
    )
