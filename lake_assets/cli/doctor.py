"""The command `doctor`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@click.command()
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Check all that is needed, with the mend.

    One line each. Fails if anything that is needed is missing; `!` marks what only some need.
    """
    from lake_assets.doctor import examine

    failed = 0
    for finding in examine(ctx.obj.config):
        mark, color = _MARKS[finding.status]
        failed += finding.status == "failed"
        text = f"{finding.text} {finding.mend}".rstrip()
        click.echo(f"{click.style(mark, fg=color)} {finding.subject:23} {text}")
    if failed:
        click.echo(f"{failed} to mend.", err=True)
        ctx.exit(1)
