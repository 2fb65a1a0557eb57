"""Fitting the simulator to a serving log, and measuring how well it then retells the log."""
