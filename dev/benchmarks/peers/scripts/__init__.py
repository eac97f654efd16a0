"""The peers: each script runs in a process and an environment of its own, and imports only that environment."""
