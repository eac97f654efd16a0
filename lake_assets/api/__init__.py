"""The functions that a Python program imports from `lake_assets`; they take a stream from `open_stream`."""
