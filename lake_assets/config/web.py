"""What a stream must say where its source is a web server, which is asked for files by their names."""

from typing import TYPE_CHECKING

from lake_assets.config.globs import is_glob

if TYPE_CHECKING:
    from lake_assets.config.streams import Stream

_WHY = "a web server cannot be listed"
_MEND = "or name the bucket behind it as source (s3://bucket/prefix), which can be"


def has_query(url: str) -> bool:
    """Whether it is a URL of a web server with a query, in which a signature may stand."""
    return url.startswith(("http://", "https://")) and "?" in url


def check_names(stream: "Stream") -> None:
    """Refuse a stream of which it is not known, without a listing, what the files of each partition are called.

    Raises:
        ValueError: it is one.
    """
    if is_glob(stream.files):
        raise ValueError(f"{_WHY}, and files is a pattern: give the name of a partition's one file, {_MEND}")
    places = {column.name for column in stream.columns if not column.in_rows}
    if any(placeholder.name not in places for placeholder in stream.template.placeholders):
        raise ValueError(
            f"{_WHY}, and folders of the layout {stream.template.text!r} are of no partition: leave them out, {_MEND}"
        )
    for name in places:
        field = stream.partitions[name]
        if field.values is None and field.start is None:
            raise ValueError(f"{_WHY}, so partitions.{name} needs its values: it is not known which there are")
    if stream.mode == "index":
        raise ValueError("mode: index registers the files of a bucket or folder, not a web server's: use mode: replace")
    if stream.sensor is not None:
        raise ValueError(f"{_WHY}, so a sensor sees nothing there: use schedule or automation")
    if stream.landing is not None and not stream.landing.outputs:
        raise ValueError("landing without outputs writes to the source, and a web server is only read: give it outputs")
