"""The command `import olake`: a catalog of OLake as a config of ours."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lake_assets.layout.olake import OlakeStream

MOST_COLUMNS = 2  # that a stream of ours may be partitioned by: Dagster's partitions have two dimensions


@click.group(name="import")
def import_() -> None:
    """Configs of other systems."""


@import_.command()
@click.argument("catalog", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--source", default="landing", show_default=True, help="Where OLake writes: a folder or s3://bucket/prefix."
)
@click.option("--lake", default="lake", show_default=True, help="Folder of the new lake.")
def olake(catalog: Path, source: str, lake: str) -> None:
    """Print a lake.yaml for the selected streams of OLake's CATALOG (catalog.json or streams.json).

    What cannot be taken over is said in the output's comments, and on standard error.
    """
    from lake_assets.layout.olake import read_catalog

    streams = read_catalog(catalog.read_text(encoding="utf-8"))
    taken = [stream for stream in streams if _why_not(stream) is None]
    if not taken:
        raise click.ClickException(
            f"{catalog} has no selected stream that can be taken over: "
            + ("; ".join(f"{s.namespace}.{s.name}: {_why_not(s)}" for s in streams) or "none is selected")
        )
    click.echo("\n".join(_config(catalog.name, streams, source, lake)))
    for stream in streams:
        if why := _why_not(stream):
            click.echo(f"{stream.namespace}.{stream.name} is left out: {why}.", err=True)


def _config(name: str, streams: tuple["OlakeStream", ...], source: str, lake: str) -> Iterator[str]:
    yield f"# Made from OLake's {name}. Check each `type` and `start`: the catalog does not say what a column holds."
    yield "lakes:"
    yield "  main:"
    yield f"    catalog: {{type: sqlite, path: {_quoted(f'{lake}/catalog.sqlite')}}}"
    yield f"    storage: {_quoted(f'{lake}/data')}"
    yield "streams:"
    names: set[str] = set()
    for stream in streams:
        if why := _why_not(stream):
            yield f"  # {stream.namespace}.{stream.name} is left out: {why}."
            continue
        yield from _stream(stream, source, _name(stream, names))


def _stream(stream: "OlakeStream", source: str, name: str) -> Iterator[str]:
    from lake_assets.time_types import time_type

    template = stream.template
    assert template is not None  # noqa: S101 - _why_not looked
    yield f"  {name}:"
    yield f"    source: {_quoted(f'{source}/{stream.namespace}/{stream.name}')}"
    yield f"    layout: {{template: {_quoted(template.text)}, compat: olake}}"
    yield "    partitions:"
    for column in template.columns:
        kind = time_type(template, column)
        yield f"      {column}: {f'{{type: {kind}, start: 2020-01-01}}' if kind else '{}'}"
    yield f"    destination: {{schema: {_identifier(stream.namespace)}, table: {_identifier(stream.name)}}}"
    if stream.sync_mode and stream.sync_mode != "full_refresh":
        yield f"    # sync_mode {stream.sync_mode}: OLake appends files, and a refresh takes the whole partition anew."


def _why_not(stream: "OlakeStream") -> str | None:
    """Why the stream cannot be taken over, or None."""
    if stream.template is None:
        return "it has no partition_regex, and a stream here is refreshed partition by partition"
    columns = stream.template.columns
    if not columns:
        return "its partition_regex names no column"
    if len(columns) > MOST_COLUMNS:
        return f"it is partitioned by {len(columns)} columns ({', '.join(columns)}), and two is the most"
    odd = [column for column in columns if _identifier(column) != column]
    return f"the column {odd[0]!r} is no SQL identifier" if odd else None


def _name(stream: "OlakeStream", taken: set[str]) -> str:
    name = _identifier(stream.name)
    if name in taken:
        name = _identifier(f"{stream.namespace}_{stream.name}")
    taken.add(name)
    return name


def _identifier(text: str) -> str:
    found = re.sub(r"\W", "_", text, flags=re.ASCII) or "main"
    return f"_{found}" if found[0].isdigit() else found


def _quoted(text: str) -> str:
    """The text as YAML's single-quoted scalar."""
    return "'" + text.replace("'", "''") + "'"
