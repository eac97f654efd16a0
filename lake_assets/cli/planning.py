"""The commands `plan` and `apply`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import dataclasses
import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lake_assets.base.errors import ConfigError
from lake_assets.base.machine import user_name
from lake_assets.base.texts import age, count, first_lines, several, size, visible_name
from lake_assets.cli.common import stream_argument
from lake_assets.cli.ingest import CliRun, launcher_option, starting_now
from lake_assets.cli.output import (
    Form,
    echo,
    form_option,
    info,
    json_of,
    print_left_out,
    print_table,
    style,
    text_table,
    write_documents,
)
from lake_assets.cli.selecting import confirm, run_options, selected, selection_options, yes_option

if TYPE_CHECKING:
    from lake_assets.config.layout.partition import Partition
    from lake_assets.ingest.outcome import IngestOptions
    from lake_assets.ingest.plan import PartitionPlan, Plan
    from lake_assets.streams.left_out import LeftOut
    from lake_assets.streams.select import Selection, Wanted
    from lake_assets.streams.stream import OpenStream

OBJECTS_SHOWN = 10
_SETTINGS = ("lake", "table", "mode", "on_empty", "schema_policy")  # that decide what becomes of the same objects


@click.command()
@stream_argument
@selection_options("the only one, or --waiting")
@run_options("force", "outside")
@click.option(
    "--left-out", "lists", is_flag=True, help="List the objects that no refresh reads, with class and reason."
)
@click.option("--apply", "applies", is_flag=True, help="Apply the plan after you confirm it.")
@yes_option
@launcher_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="JSON is the plan for `apply`.",
)
@click.pass_context
def plan(  # noqa: PLR0913 - the options of the command
    ctx: click.Context,
    stream: str | None,
    wanted: "Wanted",
    options: "IngestOptions",
    *,
    lists: bool,
    applies: bool,
    yes: bool,
    launcher: str | None,
    form: Form,
) -> None:
    """Show what an ingest would read, replace and write now. Nothing is written.

    A partition whose values are all named is shown at length, others in a table. If the selection is found by a listing
    of the whole landing zone, as with --waiting alone, the objects that no refresh reads are counted. The exit code is
    1 if the catalog and the objects' footers show that the ingest would fail.
    """
    from lake_assets.ingest.dry_run import plan_stream
    from lake_assets.streams.stream import list_landed

    if applies and form == "json":
        raise click.UsageError("--apply prints the outcomes: save the plan with --format json, and `apply` it.", ctx)
    opened = ctx.obj.stream(stream)
    if lists:
        if applies or not wanted.is_empty:
            raise click.UsageError("--left-out is about the whole landing zone: give no selection and no --apply.", ctx)
        _print_all_left_out(opened.name, list_landed(opened)[1], form)
        return
    selection = _selected(opened, wanted, outside=options.outside)
    options = starting_now(options, opened, is_named=selection.is_named or wanted.failed)
    made = plan_stream(opened, selection.partitions, options)
    # Nothing but the selected folders is listed for a plan.
    made = dataclasses.replace(made, left_out=selection.left_out or made.left_out)
    if form == "json":
        echo(json_of(made, indent=1))
    else:
        _print_plan(opened, selection, made)
        print_left_out(opened.name, made.left_out)
    if applies and made.work:
        if not yes and not _agrees(made):
            ctx.exit(1)
        partitions = [planned.partition for planned in made.work]
        options = dataclasses.replace(options, planned=made.fingerprints, run_at=dt.datetime.now(dt.UTC))
        if not CliRun(ctx.obj, opened, partitions, options, launcher).execute():
            ctx.exit(1)
    elif any(planned.decision.fails for planned in made.partitions):
        ctx.exit(1)


def _selected(opened: "OpenStream", wanted: "Wanted", *, outside: bool) -> "Selection":
    from lake_assets.streams.select import Selection, only_partition

    if not wanted.is_open:
        return selected(opened, wanted, outside=outside)
    if (only := only_partition(opened.config)) is not None:
        return Selection((only,), 1, is_named=True)
    return selected(opened, dataclasses.replace(wanted, waiting=True), outside=outside)


def _agrees(made: "Plan") -> bool:
    """Return whether a person wants the plan to be applied; one without a terminal has said so by `--apply`."""
    return not sys.stdin.isatty() or click.confirm(f"Apply this to {count(len(made.work), 'partition')}?", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=str))
@yes_option
@launcher_option
@form_option
@click.pass_context
def apply(ctx: click.Context, file: str, *, yes: bool, launcher: str | None, form: Form) -> None:
    """Do exactly what a plan says. FILE is the output of `plan --format json`; - is standard input.

    Does nothing if the stream's lake, table, mode, on_empty or schema_policy has changed since the plan. A partition
    whose landed objects have changed since is refused and stays as it is. The other partitions are ingested. The exit
    code is 1 if a partition was refused or failed.
    """
    from lake_assets.ingest.outcome import IngestOptions
    from lake_assets.ingest.plan import IDLE
    from lake_assets.streams.select import Selection

    document = _read_plan(file)
    opened = ctx.obj.stream(document["stream"])
    _refuse_other_settings(opened, file, document)
    changed = (entry for entry in document["partitions"] if entry["decision"]["action"] not in IDLE)
    fingerprints = {_planned(opened, file, entry["partition"]): entry["fingerprint"] for entry in changed}
    work, planned = list(fingerprints), {partition.path: text for partition, text in fingerprints.items()}
    if not work and form == "text":
        info(f"{opened.name}: the plan changes nothing")
        return
    if not confirm(opened, Selection(tuple(work), len(work), is_named=False), "Ingest", yes=yes or file == "-"):
        ctx.exit(1)
    options = IngestOptions(
        force=document["force"], outside=document["outside"], planned=planned, requested_by=user_name()
    )
    if not CliRun(ctx.obj, opened, work, starting_now(options, opened, is_named=False), launcher, form).execute():
        ctx.exit(1)


def _refuse_other_settings(opened: "OpenStream", file: str, document: dict[str, Any]) -> None:
    """Refuse a plan of which the same objects would become something else now."""
    config = opened.config
    now = (opened.lake_name, str(opened.table), config.mode, config.on_empty, config.schema_policy)
    for name, value in zip(_SETTINGS, now, strict=True):
        if document[name] != value:
            raise ConfigError(
                f"{file} was made with {name}: {document[name]}, and {opened.name} has {name}: {value} now:",
                f"make a new plan: `lake-assets plan {opened.name} --format json`.",
            )


def _planned(opened: "OpenStream", file: str, path: str) -> "Partition":
    if (partition := opened.config.partition_at(path)) is None:
        raise ConfigError(
            f"{file} has the partition {path}, and the partition columns of {opened.name} are others:",
            f"make a new plan: `lake-assets plan {opened.name} --format json`.",
        )
    return partition


def _read_plan(file: str) -> dict[str, Any]:
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    try:
        document = json.loads(text)
        {key: document[key] for key in ("stream", "force", "outside", *_SETTINGS)}
        for entry in document["partitions"]:
            (entry["partition"], entry["fingerprint"], entry["decision"]["action"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{'standard input' if file == '-' else file} is not a plan:",
            "create one with `lake-assets plan STREAM --format json`.",
        ) from error
    result: dict[str, Any] = document
    return result


def _print_plan(opened: "OpenStream", selection: "Selection", made: "Plan") -> None:
    if selection.is_named:
        echo("\n".join(line for planned in made.partitions for line in _plan_lines(made, planned)))
    elif made.partitions:
        _print_table(made)
        failures = (p.decision.fails for p in made.partitions if p.decision.fails)
        for line in _counted("fail", failures):
            echo(line)
    if len(made.partitions) != 1 or not selection.is_named:
        echo(f"{opened.name}: {selection}")
    echo("\n".join(_summary_lines(made)))


def _print_table(made: "Plan") -> None:
    columns = ["partition", "action", "new", "changed", "vanished", "bytes", "rows", "job", "commit"]
    rows: list[list[str | None]] = []
    for plan in made.partitions:
        objects = (f"{len(group):,}" if group else "" for group in (plan.new, plan.changed, plan.vanished))
        after = f" → {plan.rows_after:,}" if isinstance(plan.rows_after, int) else " → ?" if plan.rows_after else ""
        is_read = plan.job is not None
        rows.append(
            [
                *(str(plan.partition), plan.decision.action, *objects),
                size(plan.reads.size) if is_read else "",
                f"{plan.rows_before:,}{after}",
                plan.job or "",
                plan.strategy or "",
            ]
        )
    print_table(
        text_table(columns, rows, right=("new", "changed", "vanished", "bytes", "rows")),
        ("commit", "job", "bytes", "vanished"),
    )


def _summary_lines(made: "Plan") -> list[str]:
    """Return the columns that would change, the sum, and the time."""
    lines = _counted("columns", (text for planned in made.partitions for text in planned.columns))
    reads = [planned for planned in made.work if planned.job is not None]
    if not made.work:
        return [*lines, "an ingest would change nothing"]
    objects, bytes_ = sum(len(p.reads.objects) for p in reads), sum(p.reads.size for p in reads)
    line = f"to read: {count(objects, 'object')}, {size(bytes_)}, in {count(len(reads), 'partition')}"
    if made.seconds is not None and made.pace is not None:
        runs = "run" if made.pace.runs == 1 else f"{made.pace.runs} runs"
        line += f"; about {age(max(1, made.seconds + 0.5))}, based on the last {runs}"
    return [*lines, line]


def _counted(name: str, texts: Iterable[str]) -> list[str]:
    """Return a line for each of the texts, with the number of partitions that have it."""
    return [f"{name}: {visible_name(text)} ({count(n, 'partition')})" for text, n in Counter(texts).items()]


def _print_all_left_out(stream: str, left_out: "LeftOut", form: Form) -> None:
    """Print every object that no refresh reads, and their number."""
    if form == "json":
        write_documents(left_out.objects)
        return
    if left_out.objects:
        rows = [[item.kind, visible_name(item.key), visible_name(str(item.why))] for item in left_out.objects]
        print_table(text_table(["class", "object", "why"], rows))
    in_partitions = count(left_out.listed - len(left_out.objects), "object")
    echo(f"{stream}: {left_out}; {in_partitions} in partitions")


def _plan_lines(made: "Plan", plan: "PartitionPlan") -> list[str]:
    """Return what would be done with one partition, at length."""
    objects = plan.reads.objects
    lines = [
        style(f"{made.stream} {plan.partition}: {plan.action}", bold=True),
        f"  {_objects_text(plan):<8}  {count(len(objects), 'object')}, {size(plan.reads.size)}: {plan.source_glob}",
    ]
    listed = [
        f"            {size(obj.size):>9}  {obj.last_modified:%Y-%m-%d %H:%M:%S}  {visible_name(obj.key)}"
        for obj in objects
    ]
    lines += first_lines(listed, OBJECTS_SHOWN, "            and {more:,} more")
    if plan.decision.note:
        lines.append(f"  note      {plan.decision.note}")
    if plan.vanished:
        lines.append(f"  vanished  {count(len(plan.vanished), 'object')}: {several(plan.vanished)}")
    lines += [f"  columns   {visible_name(text)}" for text in plan.columns]
    if plan.strategy is not None:
        job = f"{plan.job}, then " if plan.job else ""
        lines.append(f"  job       {job}a commit with the {plan.strategy} strategy")
    if plan.job == "transform" and made.joined:
        lines.append(f"  joined    {several(made.joined)}, as then in the lake")
    if plan.decision.action in ("replace", "clear", "append"):
        table = (
            f"{count(plan.rows_before, 'row')} of {made.table}"
            if plan.table_exists
            else f"none: {made.table} does not exist yet; the first ingest creates it"
        )
        copied = f", up to {plan.files_copied:,} of them copied" if plan.files_copied else ""
        lines += [
            f"  {'kept' if plan.decision.action == 'append' else 'replaced':<8}  {table}",
            f"  rows      {_rows(plan)}",
            f"  written   about {count(plan.files_written, 'file')}{copied} to {plan.destination}",
        ]
        if plan.letters is not None:
            now = f", with {count(plan.letters_now, 'row')} now" if plan.letters_now else ""
            lines.append(f"  bad rows  to {plan.letters}{now}")
    elif plan.rows_after is not None:
        lines.append(f"  rows      {_rows(plan)}")
    if plan.deltas is not None:
        lines.append(f"  exported  the rows that the commit adds or removes, to {plan.deltas}")
    for sql, parameters in plan.statements:
        lines.append(f"  SQL       {sql}")
        lines += [f"            with {', '.join(map(_parameter, parameters))}"] if parameters else []
    return lines


def _objects_text(plan: "PartitionPlan") -> str:
    """Return what becomes of the objects."""
    return "read" if plan.decision.action in ("replace", "append", "register") else "landed"


def _rows(plan: "PartitionPlan") -> str:
    """Return the rows of the partition after the ingest, if the footers of its objects tell them."""
    if isinstance(plan.rows_after, int):
        most = "up to " if plan.letters is not None else ""
        return f"{plan.rows_before:,} → {most}{plan.rows_after:,} ({plan.rows_after - plan.rows_before:+,})"
    return f"{plan.rows_before:,} → unknown before the ingest: {plan.rows_after}"


def _parameter(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_parameter, value))}]"
    return f"'{value}'"
