"""The report: one self-contained page for the manager who decides and the engineer who checks."""
