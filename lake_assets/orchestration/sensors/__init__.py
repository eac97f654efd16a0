"""The sensors: what has landed, commits of others, alerts, runs that ended too early or were lost."""
