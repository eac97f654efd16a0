"""What a Python program imports from `lake_assets`: a stream and its partitions, and a connection to a lake."""
