"""The Spark session, and the code that runs inside its tasks."""
