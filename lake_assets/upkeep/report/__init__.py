"""The state of every partition, by landing zone and ledger: states, a heat map, a page."""
