"""The check of landed objects that are not in the lake because they are damaged, or do not fit the table."""

from collections.abc import Mapping

from lake_assets.checks.facts import Examined, Facts
from lake_assets.checks.result import NAMED, CheckResult
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count


def quarantine(facts: Facts) -> Examined:
    """Whether all landed objects were read: the last commit of no partition left one out.

    Raises:
        CatalogError: ledger or manifest cannot be read.
    """
    _ = facts.left_out, facts.runs
    tried = facts.scope.tried

    def by_partition() -> Mapping[Partition, CheckResult]:
        left_out = facts.still_landed()
        partitions = left_out if tried is None else tried
        return {partition: _of_objects({partition: left_out.get(partition, {})}) for partition in partitions}

    return Examined(lambda: _of_objects(facts.still_landed()), by_partition)


def _of_objects(left_out: Mapping[Partition, Mapping[str, str]]) -> CheckResult:
    reasons = [reason for of_one in left_out.values() for reason in of_one.values()]
    are = "is" if len(reasons) == 1 else "are"
    partitions = sum(bool(of_one) for of_one in left_out.values())
    return CheckResult(
        "quarantine",
        not reasons,
        f"{count(len(reasons), 'landed object')} {are} quarantined; land again, or remove."
        if reasons
        else "No landed object is quarantined.",
        "warn",
        {"objects": len(reasons), "partitions": partitions},
        reasons[:NAMED],
    )
