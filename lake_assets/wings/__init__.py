"""What can be left out: landing of records, drivers elsewhere, telemetry, importers of configs, templates."""
