"""The command `lake-assets`.

`main` is the program. Modules of this package import nothing heavy before a command runs, so that `--help` is
quick: what a command needs (Spark, DuckDB, rich, the config's models) is imported inside it. What a user has
written wrong is a click.UsageError.
"""

from lake_assets.cli.app import main

__all__ = ["main"]
