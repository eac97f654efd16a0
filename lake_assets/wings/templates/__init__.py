"""Folders that the command line writes: the demo and the starter."""
