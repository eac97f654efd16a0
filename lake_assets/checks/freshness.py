"""The check of the newest partition with rows, for each value of the columns beside the time."""

import datetime as dt
from collections.abc import Iterator
from itertools import product
from zoneinfo import ZoneInfo

from lake_assets.checks.facts import Facts, PreparedCheck
from lake_assets.checks.result import CheckResult
from lake_assets.lake.catalog.past import key_of, newest_values, partition_of
from lake_assets.lake.catalog.table import Key
from lake_assets.layout.partition import Partition
from lake_assets.layout.times import TIME_TYPES, zone_of
from lake_assets.streams.calendar import Calendar


def group_of(partition: Partition) -> Key:
    """Return the key of all partitions with the same values beside their times: NULL in place of these."""
    values = zip(partition.columns, key_of(partition), strict=True)
    return tuple(None if column.type in TIME_TYPES else text for column, text in values)


def freshness(facts: Facts) -> PreparedCheck:
    """The newest partition with rows ended recently enough, for each value of the columns beside the time.

    A value of the config without rows is late, and one that the config does not have is left out.
    """
    config = facts.stream.config.freshness
    limit = None if config is None else config.newest_partition_hours
    assert limit is not None  # noqa: S101 - otherwise the stream has no such check
    late = dict(_late(facts, limit))
    result = CheckResult.of_findings(
        "freshness",
        [*late.values()],
        failure=f"No partition with rows ended in the last {limit:g} hours. Look at what writes the landing zone, and "
        "at the newest runs.",
        success=f"The newest partitions with rows ended at most {limit:g} hours ago.",
        numbers={"late": len(late)},
        failing=frozenset(late),
    )
    return PreparedCheck(lambda: result)


def _late(facts: Facts, limit: float) -> Iterator[tuple[Key, str]]:
    """Yield the key and the text of each late group, the latest first."""
    config, tried, calendar = facts.stream.config, facts.scope.tried, Calendar(facts.stream.config)
    others = tuple(column for column in config.columns if column.type not in TIME_TYPES)
    time = next(column for column in config.columns if column.type in TIME_TYPES)
    kind, end, zone = TIME_TYPES[time.type], calendar.spans[time.name].end, zone_of(time.type, config.time_zone)
    beside = [index for index, column in enumerate(config.columns) if column in others]
    wanted = None if tried is None else {tuple(key_of(partition)[index] for index in beside) for partition in tried}
    found: dict[Partition, str | None] = {}
    if wanted is None and all(map(calendar.has_values, others)):
        found = {Partition(others, values): None for values in product(*map(calendar.values, others))}
    for key, newest in newest_values(facts.lake, facts.stream.table, others, time, wanted).items():
        if (group := partition_of(others, key)) is not None and calendar.outside(group) is None:
            found[group] = newest
    ages: list[tuple[float, Partition, str]] = []
    for group, text in found.items():
        ended = None if text is None else kind.at(kind.number(kind.start(text)) + 1).replace(tzinfo=ZoneInfo(zone))
        hours = float("inf") if ended is None else (dt.datetime.now(dt.UTC) - ended).total_seconds() / 3600
        if hours > limit and (text is None or text != end):  # nothing follows the end of the config
            what = "no rows" if text is None else f"{time.name}={text}, which ended {hours:,.1f} hours ago"
            ages.append((hours, group, f"{group.path if others else time.name}: {what}"))
    for _, group, named in sorted(ages, key=lambda late: -late[0]):
        values = dict(zip((column.name for column in others), key_of(group), strict=True))
        yield tuple(values.get(column.name) for column in config.columns), named
