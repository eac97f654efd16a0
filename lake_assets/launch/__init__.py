"""Launchers: a run whose driver is a process of its own, from its start to its end; one file an engine.

Functions raise LauncherError if an engine refuses or does not have what they need, and DriverLostError, a kind of it,
if a retry may succeed.
"""
