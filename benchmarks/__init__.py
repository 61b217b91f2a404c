"""Benchmarks: ratios of processes measured in turns, so that a busy machine slows both sides alike.

``catalogue`` lists what is measured, ``measuring`` runs it, ``figures`` computes the ratios, ``history`` keeps them,
``guard`` compares a version with the one on file. See README.md.
"""
