"""The demo's folder: each run replaces its own files, and a folder with other files is refused."""

import shutil
from importlib.resources import files
from pathlib import Path

from lake_assets.errors import StorageError

MARKER = ".made-by-lake-assets-demo"
CONFIG = "lake.yaml"

# The files of a run; all others in the folder are the user's and are kept. Beside the catalog are its lock and journal.
_OURS = ("landing", "lake", "reports", CONFIG, "catalog.sqlite*")


def prepare(folder: Path) -> Path:
    """Make the folder, or remove an earlier run's files from it, and write the config into it; returns its path.

    The folder of an interrupted run is accepted. One with files and no marker of the demo is refused; nothing was
    changed.
    """
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(
            f"{folder} exists and was not made by the demo:", "name another folder with --folder, or move it away."
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text("The demo made this folder, and replaces its files when it runs again.\n")
    for path in [path for pattern in _OURS for path in folder.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    config = folder / CONFIG
    config.write_text(
        files("lake_assets.templates.demo").joinpath(CONFIG).read_text(encoding="utf-8"), encoding="utf-8"
    )
    return config
