"""A sensor that gives renamed streams what Dagster has under their earlier names.

Dagster keeps by name whether a sensor or a schedule is on, the cursor of a sensor, and the keys of dynamic partitions.
"""

from collections.abc import Mapping

import dagster as dg

from lake_assets.layout.texts import several
from lake_assets.orchestration.dagster_private import take_over

INTERVAL_SECONDS = 30


def renames_sensor(lake: str, names: Mapping[str, str]) -> dg.SensorDefinition:
    """Return the sensor `<lake>_renames`; one of a config is enough, as it is for all streams.

    `names` are those of sensors, schedules and dynamic partitions, by their earlier ones. Keys of partitions are added
    once, as the cursor says, so that one which is deleted later does not come back. The earlier keys stay, because
    another code location may have them too.
    """

    @dg.sensor(
        name=f"{lake}_renames",
        minimum_interval_seconds=INTERVAL_SECONDS - 1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Gives renamed streams what Dagster has under their earlier names: which sensors and schedules are "
        "on, and the values of partitions.",
    )
    def renames(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        taken, done = take_over(context, names), (context.cursor or "").splitlines()
        for earlier, name in names.items():
            keys = () if f"{earlier} {name}" in done else context.instance.get_dynamic_partitions(earlier)
            if keys:
                context.instance.add_dynamic_partitions(name, list(keys))
                taken.append(name)
        text = f"{several(taken) or 'Nothing'} taken over from earlier names."
        return dg.SensorResult(skip_reason=text, cursor="\n".join(map(" ".join, names.items())))

    return renames
