"""Other replicated logs to compare with, configured according to their own documentation."""
