"""Agents: networks, their files, and the online policy-gradient algorithms that train them.

Importing this package alone does not import torch, so that settings stay cheap to read.
"""
