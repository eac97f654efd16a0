"""The command `doctor`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@click.command()
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Check all that is needed, with the fix.

    One line each. Fails if anything that is needed is missing; `!` marks what only some need.
    """
    from lake_assets.doctor import examine

    failed = 0
    told: dict[str, str] = {}  # the subject of each failure's text
    for finding in examine(ctx.obj.config):
        mark, color = _MARKS[finding.status]
        failed += finding.status == "failed"
        text = f"{finding.text} {finding.hint}".rstrip()
        if finding.status == "failed" and (first := told.setdefault(text, finding.subject)) != finding.subject:
            text = f"as {first}"
        click.echo(f"{click.style(mark, fg=color)} {finding.subject:23} {text}")
    if failed:
        click.echo(f"{failed} to mend.", err=True)
        ctx.exit(1)
