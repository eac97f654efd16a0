"""The Dagster surface over `ingest`: definitions, and in folders the assets, the sensors and the checks."""
