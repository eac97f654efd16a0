"""The page of a stream's report: if the config has a place for it, it is written again after each run of the stream."""

import dagster as dg

from lake_assets.escapes import visible_name
from lake_assets.orchestration.metadata import Metadata
from lake_assets.report.html import page, section
from lake_assets.report.state import StreamState
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream


def write_page(stream: OpenStream, state: StreamState) -> Metadata:
    """Write the page of the report, if the config has a place for it; returns its URI as metadata."""
    if stream.config.report is None:
        return {}
    store, name = Store(stream.config.report.to), f"{stream.name}.html"
    text = page([section(stream, state)], f"Partitions of {stream.name}", state.read_at)
    store.put_page(name, text.encode())
    return {"page": dg.MetadataValue.path(visible_name(store.uri(name)))}


def report_condition(stream: OpenStream) -> dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey] | None:
    """Return the condition of a refresh: a run of the stream has ended, with or without success; None without a page.

    The partitions of a run are one refresh, after its end.
    """
    if stream.config.report is None:
        return None
    failed = dg.AutomationCondition.execution_failed().newly_true()
    ended = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.newly_updated() | failed)
    requested = dg.AutomationCondition.newly_requested() & ~ended
    waiting = ended.since(requested | dg.AutomationCondition.initial_evaluation())
    busy = dg.AutomationCondition.in_progress() | dg.AutomationCondition.any_deps_in_progress()
    return (waiting & ~busy).with_label("run ended")


def report_sensor(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.AutomationConditionSensorDefinition | None:
    """Return the sensor `<stream>_report_automation`, which refreshes the page after each run; None without a page."""
    if stream.config.report is None:
        return None
    return dg.AutomationConditionSensorDefinition(
        f"{stream.name}_report_automation",
        target=dg.AssetSelection.assets(asset),
        default_status=dg.DefaultSensorStatus(stream.config.report.status.upper()),
        description=f"Refreshes the report of {stream.name} after each run of the stream.",
    )
