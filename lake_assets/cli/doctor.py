"""The command `doctor`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

from lake_assets.cli.output import Form, form_option, json_of
from lake_assets.cli.terminal import echo, style
from lake_assets.progress import counted

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@click.command()
@form_option
@click.pass_context
def doctor(ctx: click.Context, form: Form) -> None:
    """Check this machine and everything that the config names.

    Prints one line for each check, with how to fix a failure. The exit code is 1 if a check fails; `!` marks what only
    some configs need.
    """
    from lake_assets.doctor import Findings, examine

    findings = counted(examine(ctx.obj.file), "doctor", "checks")
    if form == "json":
        found = list(findings)
        failed = sum(finding.status == "failed" for finding in found)
        echo(json_of(Findings(failed, found), indent=1))
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
