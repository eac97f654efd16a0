"""The command `metrics`: figures of lakes and landing zones for a monitoring system."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import click

from lake_assets.cli.common import Options
from lake_assets.cli.output import print_table, table_of, write_documents
from lake_assets.cli.terminal import echo


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "prometheus"]),
    default="table",
    show_default=True,
    help="prometheus: the text format of Prometheus, for the node exporter's textfile collector.",
)
@click.pass_obj
def metrics(options: Options, form: str) -> None:
    """Measure lag, partitions, files and catalogs.

    Landing zones are listed, and the ledgers and catalogs are read. If OpenTelemetry's environment variable
    OTEL_EXPORTER_OTLP_ENDPOINT is set, the figures are sent there too; this needs the extra `otel`.
    """
    from lake_assets.exports import set_gauges
    from lake_assets.report.metrics import gauges, prometheus_text

    values = list(gauges(options.config))
    set_gauges(values)
    if form == "prometheus":
        echo(prometheus_text(values).rstrip("\n"))
    elif form == "json":
        write_documents(values)
    else:
        rows = [
            (v.metric, " ".join(f"{k}={text}" for k, text in v.attributes.items()), f"{v.value:,.15g}") for v in values
        ]
        print_table(table_of(["metric", "of", "value"], rows, right=["value"]))
