"""Other replicated logs beside our controllers: started as their own documentation says."""
