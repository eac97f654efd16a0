"""The Dagster surface over `ingest`: partitions, assets, resources."""
