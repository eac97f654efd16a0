"""A sensor for each stream that has one of type `sqs`: it reads the bucket's notifications from a queue."""

import dagster as dg

from lake_assets.config.sensors import SqsSensor
from lake_assets.detection.deliveries import MOST_WAITING, QueueCursor, sort_out
from lake_assets.errors import LakeAssetsError
from lake_assets.orchestration.queued_runs import QueuedRuns
from lake_assets.orchestration.queues import Queue
from lake_assets.orchestration.sensors import (
    default_status,
    log_unmatched,
    minimum_interval,
    result,
    sensor_name,
    sharing,
    without_traceback,
)
from lake_assets.streams.stream import OpenStream


def sqs_sensor(stream: OpenStream, asset: dg.AssetsDefinition) -> dg.SensorDefinition | None:
    """The sensor that reads notifications from SQS; None if the stream has none of this type.

    Dagster stores the run requests together with the cursor, after the tick. So the cursor holds the receipts of the
    messages, and the next tick deletes them: after a lost tick all messages are still in the queue, and come again.
    """
    config = stream.config.sensor
    if not isinstance(config, SqsSensor):
        return None
    queue = Queue(config)

    @dg.sensor(
        name=sensor_name(stream),
        target=asset,
        minimum_interval_seconds=minimum_interval(config, stream.config.source),
        default_status=default_status(config),
        description=f"Requests a run of each partition for which {config.queue_url} has a notification.",
    )
    def notifications(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = QueueCursor.load(context.cursor, stream.config)
        try:
            queue.delete(cursor.receipts)
            cursor.receipts = []
            # Messages that are kept count against those that may be received.
            messages = queue.receive() if len(cursor.waiting) < MOST_WAITING else ()
            delivered = sort_out(
                stream.config,
                messages,
                cursor,
                sharing=sharing(stream, context.instance),
                is_queued=QueuedRuns(stream, asset.key, context.instance).have,
            )
        except LakeAssetsError as error:
            raise without_traceback(error) from None
        log_unmatched(context, stream, delivered.unmatched)
        return result(context, stream, asset.key, delivered.targets, delivered.cursor, delivered.summary)

    return notifications
