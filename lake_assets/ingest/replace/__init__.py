"""Mode replace: a Spark job writes a partition's data files, and one commit replaces the old ones."""
