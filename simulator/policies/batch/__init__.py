"""`dispatch` rules about when to send and how many."""
