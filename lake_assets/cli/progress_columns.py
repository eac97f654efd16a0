"""The figures of a progress bar: how many are done, how many a second, and how long the others take."""

from rich.progress import ProgressColumn, Task
from rich.text import Text

from lake_assets.layout.texts import age


class Done(ProgressColumn):
    """Such as `3/25 partitions`; without a total `12,000 objects`."""

    def render(self, task: Task) -> Text:
        """The text."""
        total = "" if task.total is None else f"/{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{total} {task.fields['unit']}")


class Pace(ProgressColumn):
    """Such as `1.2/s, 18 s left`, by the average since the start; empty until one is done.

    Commits come in groups, one for each Spark job, so that an average of the last seconds would be too high after a
    group and zero before the next.
    """

    def render(self, task: Task) -> Text:
        """The text."""
        if not task.completed or not task.elapsed:
            return Text()
        rate = task.completed / task.elapsed
        text = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
        return Text(text if task.remaining is None else f"{text}, {age(task.remaining / rate)} left")
