"""The commands about the config: `validate`, `doctor`, `schema`, and `layout explain` for a path template."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import ConfigError, LakeAssetsError, LayoutError, SparkUnavailableError
from lake_assets.base.events import counted
from lake_assets.cli.common import Options, stream_argument, usage_error
from lake_assets.cli.output import JSON_COMMANDS, Form, echo, form_option, info, json_of, print_table, style

if TYPE_CHECKING:
    import pyarrow as pa

    from lake_assets.config.layout.template import Compat
    from lake_assets.config.models import LakeConfig
    from lake_assets.streams.stream import OpenStream

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@click.command()
@form_option
@click.pass_obj
def validate(options: Options, form: Form) -> None:
    """Check the config and list its streams and lakes.

    Connects to no server; `doctor` does. Spark's parser reads the SQL of transforms, in a second or two. Of lakes in
    SQLite and folders it names what the config has no longer: tables, and streams that filled them.
    """
    from rich.table import Column, Table
    from rich.text import Text

    from lake_assets.cli.documents import ValidConfig
    from lake_assets.upkeep.report.former_streams import former_streams

    config = options.config
    _check_sql(options, config)
    try:
        former = former_streams(config, at_hand=True)
    except LakeAssetsError as error:
        former = []
        info(f"The tables of the lakes were not compared: {error}", err=True)
    document = ValidConfig.of(config, former)
    if form == "json":
        echo(json_of(document, indent=1))
        return
    columns = [Column(name, overflow="fold") for name in ("stream", "from", "to", "partitions")]
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for stream in document.streams:
        partitions = ", ".join(f"{name} ({kind})" for name, kind in stream.partitions.items()) or "none"
        table.add_row(*map(Text, (stream.name, stream.source, f"{stream.lake}.{stream.table}", partitions)))
    print_table(table)
    for lake in document.lakes:
        echo(f"lake {lake.name}: catalog {lake.catalog}, storage {lake.storage}")
    for line in former:
        echo(str(line))
    echo(style("The config is valid.", fg="green"))


def _check_sql(options: Options, config: "LakeConfig") -> None:
    """Refuse SQL of transforms that Spark's parser refuses; without Java, say that it was not read."""
    if all(stream.transform is None or stream.transform.sql is None for stream in config.streams.values()):
        return  # Spark's modules take a second
    from lake_assets.spark.sql_parser import refused_statements
    from lake_assets.streams.load import is_of_variables

    try:
        refused = refused_statements(config)
    except SparkUnavailableError as error:
        info(f"The SQL of transforms was not checked: {error}", err=True)
        return
    if refused:
        is_variable = is_of_variables(options.file)
        texts = (
            f"{'TRANSFORM_SQL' if is_variable else f'streams.{name}.transform.sql'}: {text}"
            for name, text in refused.items()
        )
        raise ConfigError("\n".join(texts), "write one statement of Spark SQL.")


@click.command()
@click.argument("command", required=False, type=click.Choice((*JSON_COMMANDS, "infer")))
@stream_argument
@click.pass_obj
def schema(options: Options, command: str | None, stream: str | None) -> None:
    """Print a JSON Schema, or the columns of a stream.

    The config's schema is for editors. A command's schema describes its --format json. `infer STREAM` prints the
    `columns` of the stream's table, or of its landing zone if there is no table, as the config can declare them.

    \b
    lake-assets schema > lake.schema.json
    The first line of lake.yaml names the file for the YAML language server:
    # yaml-language-server: $schema=lake.schema.json
    """  # noqa: D301 - click reads the \b
    if command == "infer":
        echo(_inferred(options.stream(stream)))
        return
    if stream is not None:
        raise usage_error(f"{stream} is a stream, of which only infer prints something.")
    from lake_assets.cli.documents import output_schema
    from lake_assets.config.models import LakeConfig

    echo(json.dumps(LakeConfig.model_json_schema() if command is None else output_schema(command), indent=2))


def _inferred(stream: "OpenStream") -> str:
    import yaml

    from lake_assets.ingest.landed_footers import inferred_columns

    columns = {name: dict(column) for name, column in inferred_columns(stream).items()}
    return yaml.safe_dump({"columns": columns}, sort_keys=False, allow_unicode=True, width=120).rstrip()


@click.command()
@click.option(
    "--as",
    "role",
    type=click.Choice(["writer", "reader"]),
    default="writer",
    show_default=True,
    help="The rights to check: a reader queries, reports and plans, and writes nothing.",
)
@form_option
@click.pass_context
def doctor(ctx: click.Context, role: str, form: Form) -> None:
    """Check this machine and everything that the config names.

    Prints one line for each check, with how to fix a failure. The exit code is 1 if a check fails; `!` marks what only
    some configs need.
    """
    from lake_assets.upkeep.doctor import Findings, examine

    findings = counted(examine(ctx.obj.file, reads_only=role == "reader"), "doctor", "checks")
    if form == "json":
        examined = list(findings)
        failed = sum(finding.status == "failed" for finding in examined)
        echo(json_of(Findings(failed, examined), indent=1))
        ctx.exit(1 if failed else 0)
    failed = 0
    first_subjects: dict[str, str] = {}  # by the text of a failure
    for finding in findings:
        mark, color = _MARKS[finding.status]
        text = f"{finding.text} {finding.hint}".rstrip()
        if finding.status == "failed":
            failed += 1
            first = first_subjects.setdefault(text, finding.subject)
            text = text if first == finding.subject else f"as {first}"
        echo(f"{style(mark, fg=color)} {finding.subject:23} {text}")
    if failed:
        echo(f"{failed} to fix.", err=True)
        ctx.exit(1)


SAMPLE_ROWS = 1_000_000

_READERS = {
    ".parquet": "read_parquet(?, hive_partitioning => false)",
    ".csv": "read_csv(?)",
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json(?)"),
}


@click.group()
def layout() -> None:
    """Explain path templates."""


@layout.command()
@click.argument("template")
@click.option(
    "--sample",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Show the paths of this file's rows. Parquet, CSV or JSON lines, as the file's ending says.",
)
@click.option("--time-zone", default="UTC", show_default=True, help="Time zone of the dates and hours in paths.")
@click.option("--nested", is_flag=True, help="A / in a value makes folders.")
@click.option("--compat", type=click.Choice(["olake"]), help="Read the template and write paths as this system does.")
def explain(template: str, sample: Path | None, time_zone: str, *, nested: bool, compat: "Compat | None") -> None:
    """Show how each part of TEMPLATE is read.

    TEMPLATE is, for example, 'region={region}/{date,,YYYY}'. If TEMPLATE is malformed, the exit code is 2 and the
    error shows the position.
    """
    from lake_assets.config.layout.explanation import explanation
    from lake_assets.config.layout.template import Template

    try:
        parsed = Template.parse(template, time_zone=time_zone, nested=nested, compat=compat)
    except LayoutError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    echo(explanation(parsed, _read(sample) if sample else None))


def _read(file: Path) -> "pa.Table":
    """Return the first million rows of the file."""
    import duckdb

    from lake_assets.base.duckdb_engine import glob_literal, open_engine

    # Hive's folders are not columns of the rows: the template makes them.
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise click.UsageError(
            f"{file} ends in none of {', '.join(_READERS)}: rename the sample.", click.get_current_context()
        )
    with open_engine(()) as engine:
        try:
            sql = f"SELECT * FROM {reader} LIMIT {SAMPLE_ROWS}"  # noqa: S608 - a known function
            return engine.execute(sql, [glob_literal(str(file))]).to_arrow_table()
        except duckdb.Error as error:
            text = " ".join(str(error).split())[:500]
            raise click.UsageError(f"{file} cannot be read: {text}", click.get_current_context()) from error
