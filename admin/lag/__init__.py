"""Lag reports: what the logs of many replicas say about who was behind, when and why.

`tables` says which tables there are, `source` reads them out of log folders as a Spark data
source, the reports make tables of tables, and what shows them knows neither. Nothing outside this
package imports Spark, Arrow or NumPy, and nothing in it is imported by a running node.
"""
