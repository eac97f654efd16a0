"""The care of a lake: history and restore, maintenance, checks, reports, `doctor`, and what a process exports."""
