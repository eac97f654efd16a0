"""The state of a command's log: lines for people or JSON lines on standard error, and whether it is quiet."""

import logging

import click

from lake_assets.logs import VARIABLE, LogFormat, stop_json, write_json

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar=VARIABLE,
    help=f"The log: text, or a JSON object a line on standard error. Default: ${VARIABLE}, then text.",
)

_handlers: list[logging.Handler] = []
_is_quiet = False


def set_log_format(form: LogFormat) -> None:
    """Write JSON lines from now on, or lines for people."""
    while _handlers:
        stop_json(_handlers.pop())
    if form == "json":
        _handlers.append(write_json())


def is_json() -> bool:
    """Return whether the log of this process is JSON lines."""
    return bool(_handlers)


def set_quiet(*, quiet: bool) -> None:
    """Print only errors and results from now on, or all."""
    global _is_quiet  # noqa: PLW0603 - the state of the process
    _is_quiet = quiet


def is_quiet() -> bool:
    """Return whether this process prints only errors and results."""
    return _is_quiet
