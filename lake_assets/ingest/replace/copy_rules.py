"""Which landed objects of a stream become data files as they are."""

import sys

from lake_assets.config.storages import WebStorage
from lake_assets.parquet.job import CopyRules
from lake_assets.streams.stream import OpenStream


def copy_rules(stream: OpenStream) -> CopyRules | None:
    """Return the rules by which objects are copied; None if all rows pass through the encoding job.

    They do if rows are transformed, selected, extended or compared one by one, if the lake takes rows by INSERT only,
    and if a web server has the objects, whose versions it does not compare.
    """
    config = stream.config
    encodes = config.transform or config.selects_rows or config.path_columns or config.derived
    if config.copying == "never" or encodes or stream.lake_config.inserts_only or isinstance(config.source, WebStorage):
        return None
    is_sized = config.copying != "always"
    return CopyRules(
        codec=config.compression if config.copying == "auto" else None,
        least=config.target_file_size // 4 if is_sized else 0,
        most=2 * config.target_file_size if is_sized else sys.maxsize,
        reads_pages=config.verify == "pages",
        may_link=config.immutable_source,
    )
