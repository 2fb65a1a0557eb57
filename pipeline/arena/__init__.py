"""Policies against each other in named scenarios."""
