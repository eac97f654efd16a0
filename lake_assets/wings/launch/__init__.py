"""Launchers: a run whose driver is a process of its own, from its start to its end; one file an engine.

A launcher is asked for by the config; a driver gets its request and reports by Dagster Pipes.
"""
