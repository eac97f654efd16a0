"""The production topology on one machine, each part as a process: `make stack`, `make stack-demo`."""
