"""The heat map, if its packages are installed: Matplotlib and Pillow, in the extra `report`."""

import importlib.util

from lake_assets.errors import MissingExtraError, install
from lake_assets.report.state import StreamState

_PACKAGES = ("matplotlib", "PIL")


def require_pictures() -> None:
    """Check that pictures can be drawn, without an import.

    Raises:
        MissingExtraError: Matplotlib or Pillow is not installed.
    """
    if not all(_is_installed(package) for package in _PACKAGES):
        raise MissingExtraError("pictures need Matplotlib and Pillow:", f"{install('report')}.")


def heat_map(state: StreamState) -> bytes:
    """Return the picture of a stream's partitions.

    Args:
        state: of the stream.

    Returns:
        A PNG of up to about 2,000 by 4,000 pixels; three regions and a year take 15 kB.

    Raises:
        MissingExtraError: Matplotlib or Pillow is not installed.
    """
    require_pictures()
    from lake_assets.report import plot  # noqa: PLC0415 - loading Matplotlib takes as long as everything else

    return plot.draw(state)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # its entry of `sys.modules` is None
        return False
