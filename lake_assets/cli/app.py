"""The group of all commands. An error ends a command with one paragraph and an exit code, never with a traceback."""

import atexit
import errno
import gc
import itertools
import signal
import time
from typing import Any

import click

from lake_assets.base.events import LogFormat, ended_by
from lake_assets.cli.catalog import catalog
from lake_assets.cli.check import check
from lake_assets.cli.common import Options, require_unicode
from lake_assets.cli.config import doctor, layout, schema, validate
from lake_assets.cli.dagster import dev, sync_dagster
from lake_assets.cli.history import diff, history, restore
from lake_assets.cli.index import index
from lake_assets.cli.ingest import ingest
from lake_assets.cli.init import demo, import_, init
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.land import land
from lake_assets.cli.maintain import forget, maintain
from lake_assets.cli.output import echo, is_plain, log_format_option, print_error, set_log_format
from lake_assets.cli.planning import apply, plan
from lake_assets.cli.progress_bar import progress_bar
from lake_assets.cli.query_ledger import ledger, query
from lake_assets.cli.report import files, metrics, report_
from lake_assets.cli.verbosity import accept_verbosity, end_verbosity, quiet_option, set_verbosity, verbose_option
from lake_assets.upkeep.exports import telemetry

SIGNALLED = 128  # a shell's exit code is this plus the number of the signal


class Application(click.Group):
    """Runs one command. Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted, 143 terminated."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which a new user needs them."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the commands in groups, in columns of one width."""
        longest = max(map(len, self.commands))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                texts = [command.get_short_help_str(formatter.width - 6 - longest) for command in commands]
                names = [(command.name or "").ljust(longest) for command in commands]
                formatter.write_dl(list(zip(names, texts, strict=True)))

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Run the command that the arguments name."""
        interrupt.listen()
        _collect_seldom()
        try:
            # Within the `try`, so that an error is printed when the bar has gone.
            with ended_by(interrupt.check), progress_bar(is_off=ctx.params["log_format"] == "json"):
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            interrupt.pressed = True
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of our output ended, such as `| head`; click exits quietly
            if not interrupt.pressed:  # otherwise a library turned Ctrl-C into this error
                print_error(error, debug=ctx.params["debug"])
        if interrupt.pressed:
            echo("\nInterrupted." if interrupt.signal == signal.SIGINT else "\nTerminated.", err=True)
            raise click.exceptions.Exit(SIGNALLED + interrupt.signal)
        raise click.exceptions.Exit(1)


def _collect_seldom() -> None:
    """Let Python collect garbage after 50,000 new objects instead of 700, and not when the process ends.

    What a command imports are 100,000 objects that stay; they are looked through again and again, for 0.2 s.
    """
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


# A paragraph after \b keeps its lines.
EXAMPLES = """\b
Examples:
  lake-assets init shop                          a project that runs as it is
  lake-assets plan sales --waiting               what an ingest of all that is new would do
  lake-assets ingest sales --partition region=NW,date=2026-02-11
  lake-assets query "SELECT count(*) FROM sales"
  lake-assets dev                                Dagster's UI for the config
"""


@click.group(cls=Application, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLES)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=str),
    metavar="FILE",
    help="The config: a file, or a URI such as s3://bucket/lake.yaml. Default: $LAKE_CONFIG, then ./lake.yaml.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and Spark's error log.")
@log_format_option
@quiet_option
@verbose_option
@click.version_option(package_name="lake-assets", message="%(prog)s %(version)s")
@click.pass_context
def main(
    ctx: click.Context, config: str | None, *, debug: bool, log_format: LogFormat, quiet: bool, verbose: int
) -> None:
    """Keep a DuckLake in sync with its landing zone, one partition at a time.

    -q and -v also work after the command.
    """
    if is_plain():
        ctx.color = False
    set_log_format(log_format)
    ctx.call_on_close(lambda: set_log_format("text"))
    start = time.perf_counter()
    ctx.call_on_close(lambda: end_verbosity(ctx, start))
    set_verbosity(ctx, quiet=quiet, verbose=verbose)
    ctx.with_resource(telemetry())
    ctx.obj = Options(config, debug)


GROUPS = {
    "Start": (demo, init, doctor, validate, dev),
    "Land": (land,),
    "Refresh": (plan, apply, ingest, index),
    "Read and check": (query, ledger, files, history, diff, report_, check, metrics),
    "Correct and clean up": (restore, maintain, forget, catalog),
    "More": (sync_dagster, schema, layout, import_),
}
for command in itertools.chain.from_iterable(GROUPS.values()):
    accept_verbosity(command)
    main.add_command(command)
require_unicode(main)
