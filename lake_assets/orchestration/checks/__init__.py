"""The checks of a stream, and their results in Dagster."""
