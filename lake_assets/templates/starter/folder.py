"""The starter project's folder: made whole or not at all, and never over a file of somebody's."""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from lake_assets.config.load import load_config
from lake_assets.config.models import schema_of
from lake_assets.errors import StorageError
from lake_assets.landing.retail import Retail
from lake_assets.landing.writer import LandingWriter

STREAM = "sales"  # of the template's config

# Where each template goes. Git would read a file named .gitignore among the sources too.
_TEMPLATES = {
    "lake.yaml": "lake.yaml",
    "workspace.yaml": "workspace.yaml",
    "dagster.yaml": "dagster_home/dagster.yaml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
}
_LANDED = Retail(stores=4, regions=("NW", "SW"), days=2, seed=1, start=dt.date(2026, 2, 11), per_store=100)


def start(folder: Path) -> list[Path]:
    """Write the project into the folder, which is new or holds nothing but hidden files (`.git`, `.venv`).

    Everything is made in a hidden folder below it and moved out of that at the end, so a failure leaves nothing.

    Returns:
        What was written, relative to the folder; of folders of data their names alone.

    Raises:
        StorageError: something stands in the way, which is named, or the folder cannot be written; nothing was.
    """
    _refuse_content(folder)
    with _made(folder), TemporaryDirectory(prefix=".lake-assets-init-", dir=folder) as name:
        building = Path(name)
        _write(building)
        made = sorted(building.iterdir())
        written = [path.relative_to(building) for path in _shown(made)]
        for path in made:
            path.rename(folder / path.name)
    return written


def _refuse_content(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} exists and is a file:", "name another folder.")
    ours = {Path(place).parts[0] for place in _TEMPLATES.values()}
    found = sorted(folder.iterdir()) if folder.exists() else []
    in_the_way = [path for path in found if path.name in ours or not path.name.startswith(".")]
    if in_the_way:
        raise StorageError(
            f"{in_the_way[0]} exists, and a project starts in a folder of its own; nothing was written:",
            "name a new folder, as in `lake-assets init my-lake`.",
        )


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder, there; the ones that had to be made for it are gone again after an error."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for path in new:
            if path.exists() and not any(path.iterdir()):
                path.rmdir()
        if isinstance(error, OSError):
            raise StorageError(
                f"the folder {folder} cannot be written: {error.strerror}.", "Name another one."
            ) from error
        raise


def _write(folder: Path) -> None:
    for template, place in _TEMPLATES.items():
        (folder / place).parent.mkdir(exist_ok=True)
        text = files("lake_assets.templates.starter").joinpath(template).read_text(encoding="utf-8")
        (folder / place).write_text(text, encoding="utf-8")
    (folder / "lake.schema.json").write_text(json.dumps(schema_of(), indent=2) + "\n", encoding="utf-8")
    stream = load_config(folder / "lake.yaml").streams[STREAM]
    with LandingWriter(STREAM, stream) as writer:
        for block in _LANDED.blocks():
            writer.write(block)


def _shown(made: list[Path]) -> Iterator[Path]:
    for path in made:
        if path.name == "dagster_home":
            yield from path.iterdir()
        else:
            yield path
