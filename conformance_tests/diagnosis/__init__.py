"""Diagnosis: which wrong equation reproduces an encoder, and where it departs."""
