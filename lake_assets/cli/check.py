"""The command `check`: the checks of a stream, the same that Dagster runs."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

from lake_assets.cli.common import (
    Options,
    outside_option,
    partition_of,
    partition_option,
    refuse_outside,
    stream_named,
)
from lake_assets.cli.failure import Failures
from lake_assets.errors import LakeAssetsError


@click.command()
@click.argument("stream", required=False)
@click.option("--only", "names", multiple=True, metavar="NAME", help="Only this check; may be given several times.")
@partition_option(
    "Look at this one, such as region=NW,date=2026-02-11; may be given several times. Else at the whole table."
)
@outside_option
@click.pass_context
def check(
    ctx: click.Context, stream: str | None, names: tuple[str, ...], texts: tuple[str, ...], *, outside: bool
) -> None:
    """Compare a stream's table with landing zone, ledger and catalog; nothing is changed.

    The exit code is 1 if a check fails, but for those that only warn.
    """
    from lake_assets.checks.result import Scope
    from lake_assets.checks.run import checks_of, run_check

    options: Options = ctx.obj
    opened = stream_named(options.load(), stream)
    known = list(checks_of(opened))
    for name in names:
        if name not in known:
            raise click.UsageError(f"stream {opened.name} has no check {name!r}: it has {', '.join(known)}.", ctx)
    partitions = tuple(partition_of(opened.config, text) for text in dict.fromkeys(texts)) or None
    refuse_outside(opened.config, partitions or (), outside=outside)
    failed = False
    failures = Failures(debug=options.debug, noun="check")
    for name in names or known:
        try:
            found = run_check(opened, name, Scope(None, partitions))
        except LakeAssetsError as error:
            failures.tell(name, error)
            continue
        is_error = not found.passed and (found.severity == "error" or name in opened.config.checks.blocking)
        failed = failed or is_error
        word = "passed" if found.passed else "failed" if is_error else "warning"
        click.echo(f"{word:<8} {name:<18} {found.description}")
        for line in found.named:
            click.echo(f"{'':27} {line}")
    failures.tell_rest()
    if failed or failures.count:
        ctx.exit(1)
