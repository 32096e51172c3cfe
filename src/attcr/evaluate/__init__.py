"""Protocols, one definition of each metric, and reports."""
