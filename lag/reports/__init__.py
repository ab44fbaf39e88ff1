"""The reports: functions from the tables of the source to the tables of `schemas`."""
