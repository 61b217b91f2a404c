"""Identification: which equation stands in each slot of an encoder."""
