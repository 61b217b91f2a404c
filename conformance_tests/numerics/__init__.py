"""Numerics: comparison, tolerance and probes."""
