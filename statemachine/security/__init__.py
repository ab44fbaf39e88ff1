"""Access control lists, SCRAM credentials and delegation tokens, and the decisions by ACLs."""
