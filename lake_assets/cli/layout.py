"""The command `layout explain`: shows how a path template is read, before anything lands by it."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import LayoutError
from lake_assets.cli.output import echo

if TYPE_CHECKING:
    import pyarrow as pa

    from lake_assets.config.layout.template import Compat

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
    from lake_assets.config.layout.explain import explain as explain_template
    from lake_assets.config.layout.template import Template

    try:
        parsed = Template.parse(template, time_zone=time_zone, nested=nested, compat=compat)
    except LayoutError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    echo(explain_template(parsed, _read(sample) if sample else None))


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
