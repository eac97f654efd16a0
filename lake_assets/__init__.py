"""Keeps a DuckLake true to its landing zone, one partition at a time: Dagster assets, Spark jobs, one commit."""
