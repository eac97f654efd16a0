"""The rules for streams whose source is a web server: files are requested by name, and cannot be listed."""

from collections.abc import Mapping, Sequence

from lake_assets.config.globs import is_glob
from lake_assets.config.landing import Landing
from lake_assets.config.partition_fields import PartitionField
from lake_assets.layout.partition import PartitionColumn
from lake_assets.layout.template import Template

_WHY = "a web server cannot be listed"
_HINT = "or name the bucket behind it as source (s3://bucket/prefix), which can be"


def has_query(url: str) -> bool:
    """Return whether it is a URL of a web server with a query, which may have a signature."""
    return url.startswith(("http://", "https://")) and "?" in url


def check_names(
    files: str,
    template: Template,
    columns: Sequence[PartitionColumn],
    partitions: Mapping[str, PartitionField],
) -> None:
    """Refuse a stream whose file names are not known without a listing.

    Args:
        files: the stream's pattern of file names.
        template: its layout.
        columns: its partition columns.
        partitions: their fields in the config.

    Raises:
        ValueError: a file name, a folder or a partition's value is not known.
    """
    if is_glob(files):
        raise ValueError(f"{_WHY}, and files is a pattern: give the name of a partition's one file, {_HINT}")
    names = {column.name for column in columns if not column.in_rows}
    if any(placeholder.name not in names for placeholder in template.placeholders):
        raise ValueError(
            f"{_WHY}, and folders of the layout {template.text!r} are in no partition: leave them out, {_HINT}"
        )
    for name in names:
        field = partitions[name]
        if field.values is None and field.start is None:
            raise ValueError(f"{_WHY}, so partitions.{name} needs its values")


def check_use(mode: str, sensor: object | None, landing: Landing | None) -> None:
    """Refuse a mode, a sensor or a landing that needs a listing of the source or writes to it.

    Raises:
        ValueError: the stream has one of these.
    """
    if mode == "index":
        raise ValueError("mode: index registers the files of a bucket or folder, not a web server's: use mode: replace")
    if sensor is not None:
        raise ValueError(f"{_WHY}, so a sensor finds nothing there: use schedule or automation")
    if landing is not None and not landing.outputs:
        raise ValueError("landing without outputs writes to the source, and a web server is read-only: add outputs")
