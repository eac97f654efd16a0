"""Tests of the changes of rows."""
