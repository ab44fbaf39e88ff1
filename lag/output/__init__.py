"""How a report is shown: a page, and files for programs. Nothing here knows Spark."""
