"""The Spark session, and the code that runs inside its tasks.

Functions that start or use a session raise SparkUnavailableError without a usable Java, or if Spark ended; those that
run a job raise what `spark_errors` raises.
"""
