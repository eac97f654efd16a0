"""What Dagster's pages show of runs and of the code server, by the queries of these pages, and as Chromium shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.servers.dagster import DagsterServer, Run

_EVENTS = """
query ($id: ID!, $after: String) {
  logsForRun(runId: $id, afterCursor: $after) {
    ... on EventConnection {
      cursor
      hasMore
      events {
        ... on MessageEvent { timestamp level message }
        ... on ErrorEvent { error { message causes { message } } }
      }
    }
  }
}
"""
_LOCATIONS = """
query {
  workspaceOrError {
    ... on Workspace { locationEntries { name updatedTimestamp locationOrLoadError { __typename } } }
  }
}
"""


@dataclass(frozen=True)
class Trouble:
    """A warning or an error in the log of a run."""

    run_id: str
    at: float  # seconds since 1970
    text: str


def troubles(dagster: DagsterServer, runs: Sequence[Run]) -> list[Trouble]:
    """The warnings and errors in the logs of these runs."""
    found = []
    for run in runs:
        after, has_more = None, True
        while has_more:
            answer = dagster.graphql(_EVENTS, id=run.run_id, after=after)["logsForRun"]
            after, has_more = answer["cursor"], answer["hasMore"]
            for event in answer["events"]:
                error = event.get("error")
                if error is None and event["level"] not in ("WARNING", "ERROR", "CRITICAL"):
                    continue
                causes = [error["message"], *(cause["message"] for cause in error["causes"])] if error else []
                text = "\n".join([event["message"], *causes])
                found.append(Trouble(run.run_id, float(event["timestamp"]) / 1000, text))
    return sorted(found, key=lambda trouble: trouble.at)


def loaded_at(dagster: DagsterServer) -> float:
    """When Dagster has last loaded the definitions from the code server. Seconds since 1970."""
    (location,) = dagster.graphql(_LOCATIONS)["workspaceOrError"]["locationEntries"]
    assert location["locationOrLoadError"]["__typename"] == "RepositoryLocation", location
    return float(location["updatedTimestamp"])


def check_visible(dagster: DagsterServer, chromium: str, trouble: Trouble, picture: Path) -> None:
    """Check that the page of a run shows a warning or an error in its log; take a picture of the page."""
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - may not be installed

    line = trouble.text.splitlines()[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(60_000)
        page.goto(f"{dagster.url}/runs/{trouble.run_id}")
        page.get_by_placeholder("Filter…").fill(line[:30])
        page.keyboard.press("Enter")
        expect(page.get_by_text(line).first).to_be_visible(timeout=60_000)
        page.screenshot(path=picture)
        browser.close()
