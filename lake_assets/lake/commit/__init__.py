"""Commits: what one changes, and the three strategies that write it."""
