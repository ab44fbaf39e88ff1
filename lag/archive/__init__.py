"""An archive of logs: a stream keeps their bytes in Parquet, and reports restore them."""
