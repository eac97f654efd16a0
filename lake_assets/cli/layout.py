"""The command `layout explain`: how a path template is read, before anything is landed by it."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.errors import LayoutError

if TYPE_CHECKING:
    import pyarrow as pa

    from lake_assets.layout.template import Compat

SAMPLE_ROWS = 1_000_000


@click.group()
def layout() -> None:
    """Path templates."""


@layout.command()
@click.argument("template")
@click.option(
    "--sample",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Show the paths that its rows would take: Parquet, CSV or JSON lines, by the file's ending.",
)
@click.option("--time-zone", default="UTC", show_default=True, help="Whose clock gives the path's dates and hours.")
@click.option("--nested", is_flag=True, help="Let a / in a value make folders.")
@click.option("--compat", type=click.Choice(["olake"]), help="Read the template, and write paths, as this system does.")
def explain(template: str, sample: Path | None, time_zone: str, *, nested: bool, compat: "Compat | None") -> None:
    """Show how each part of TEMPLATE is read, such as 'region={region}/{date,,YYYY}'.

    A TEMPLATE that is none exits with 2 and shows the place of the fault.
    """
    from lake_assets.layout.explain import explain as explained
    from lake_assets.layout.template import Template

    try:
        parsed = Template.parse(template, time_zone=time_zone, nested=nested, compat=compat)
    except LayoutError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    click.echo(explained(parsed, _read(sample) if sample else None))


def _read(file: Path) -> "pa.Table":
    """The file's rows, the first million of them.

    Raises:
        click.UsageError: the ending is of no kind that is read, or the file is not of its kind.
    """
    import duckdb

    readers = {".parquet": "read_parquet", ".csv": "read_csv", ".json": "read_json", ".jsonl": "read_json"}
    readers[".ndjson"] = "read_json"
    if file.suffix.lower() not in readers:
        raise click.UsageError(
            f"{file} ends in none of {', '.join(readers)}: name the sample by its kind.", click.get_current_context()
        )
    from lake_assets.duckdb_engine import glob_literal, open_engine

    reader = readers[file.suffix.lower()]
    with open_engine(()) as engine:
        try:
            # Hive's folders are no columns of the rows: the template is to make them.
            options = ", hive_partitioning => false" if reader == "read_parquet" else ""
            found = engine.execute(
                f"SELECT * FROM {reader}(?{options}) LIMIT {SAMPLE_ROWS}",  # noqa: S608 - a known function
                [glob_literal(str(file))],
            )
            return found.to_arrow_table()
        except duckdb.Error as error:
            text = " ".join(str(error).split())[:500]
            raise click.UsageError(f"{file} cannot be read: {text}", click.get_current_context()) from error
