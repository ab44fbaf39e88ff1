"""The reports: each a function from the tables of the source to one table of `schemas`."""
