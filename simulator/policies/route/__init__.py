"""`route` rules: the replica that an arrival joins."""
