"""Metrics and traces of runs by OpenTelemetry, and figures of lakes and landing zones."""
