"""Launchers: a run whose driver is a process of its own, from its start to its end; one file an engine."""
