"""The outputs of a report: the HTML page, files for programs, a summary. No Spark here."""
