"""Pages of the documentation whose commands are run, and whose outputs are compared with the real ones."""
