"""The command `check`: the checks of a stream, the same ones that Dagster runs."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.events import counted
from lake_assets.base.texts import count, meant, visible_name
from lake_assets.cli.common import Options, outside_option, stream_argument
from lake_assets.cli.output import Failures, Form, echo, form_option, info, write_documents
from lake_assets.cli.selecting import selected_or_all, selection_options

if TYPE_CHECKING:
    from lake_assets.cli.documents import CheckFinding
    from lake_assets.streams.select import Wanted


@click.command()
@stream_argument
@click.option("--only", "names", multiple=True, metavar="NAME", help="Run only this check; repeatable.")
@selection_options("the whole table")
@outside_option
@form_option
@click.pass_context
def check(
    ctx: click.Context, stream: str | None, wanted: "Wanted", names: tuple[str, ...], *, outside: bool, form: Form
) -> None:
    """Compare a table with its landing zone, ledger and catalog.

    Without a selection this is an audit: it reads the whole table, the whole landing zone and the whole ledger. With
    one, the checks look at these partitions only. Nothing is changed. The exit code is 1 if a check fails; a
    warning does not count as a failure.
    """
    from lake_assets.cli.documents import CheckFinding
    from lake_assets.upkeep.checks.check_run import CheckRun, checks_of, is_error
    from lake_assets.upkeep.checks.facts import Scope

    options: Options = ctx.obj
    opened = options.stream(stream)
    known = list(checks_of(opened))
    for name in names:
        if name not in known:
            raise click.UsageError(f"stream {opened.name} has no check {name!r}: {meant(name, known)}", ctx)
    selection = selected_or_all(opened, wanted, outside=outside)
    partitions = None if selection is None else selection.partitions
    if selection is not None and not partitions:
        info(f"{opened.name}: {selection}", err=True)
        if form == "json":
            write_documents(())
        return
    failures = Failures(debug=options.debug, noun="check", err=form == "json")
    checked = names or tuple(known)
    if form == "text":
        echo(f"{opened.name}: {_kind(len(partitions or ()))}")
    checkup = CheckRun(opened, checked, Scope(None, partitions))
    findings = []
    for name in counted(checked, f"check {opened.name}", "checks", len(checked)):
        try:
            result = checkup.result(name)
        except LakeAssetsError as error:
            failures.add(name, error)
            findings.append(CheckFinding(name, "failed", error=error))
            continue
        findings.append(CheckFinding.of(result, failed=is_error(opened, name)))
        if form == "text":
            _print(findings[-1])
    failures.print_repeated()
    if form == "json":
        write_documents(findings)
    if any(finding.status == "failed" for finding in findings):
        ctx.exit(1)


def _print(finding: "CheckFinding") -> None:
    echo(f"{finding.status:<8} {finding.name:<18} {finding.description}")
    for line in finding.named:
        echo(f"{'':27} {visible_name(line)}")


def _kind(partitions: int) -> str:
    if not partitions:
        return "audit of the whole table"
    return f"checks of {count(partitions, 'partition')}"
