"""Metrics and traces of runs by OpenTelemetry, lineage by OpenLineage, and figures of lakes and landing zones."""
