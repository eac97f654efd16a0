"""Dagster's automation of an asset, tick by tick."""

import dagster as dg


class Automation:
    """The automation of one asset; the first tick, which only begins, is done.

    Args:
        definitions: with the asset.
        instance: with the events of its upstream assets.
        asset: the key of the asset.
    """

    def __init__(self, definitions: dg.Definitions, instance: dg.DagsterInstance, asset: dg.AssetKey) -> None:
        self._definitions, self._instance = definitions, instance
        self._selection = dg.AssetSelection.assets(asset)
        self._cursor = self._evaluate(None).cursor

    def _evaluate(self, cursor: object) -> dg.EvaluateAutomationConditionsResult:
        return dg.evaluate_automation_conditions(
            self._definitions,
            self._instance,
            asset_selection=self._selection,
            cursor=cursor,  # type: ignore[arg-type]
        )

    def tick(self) -> int:
        """The number of runs that a tick requests."""
        result = self._evaluate(self._cursor)
        self._cursor = result.cursor
        return result.total_requested
