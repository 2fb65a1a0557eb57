"""Comparing policies on the same arrivals and noise, tuning rules, and the gate."""
