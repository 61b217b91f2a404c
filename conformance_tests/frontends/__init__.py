"""Frontends: the command line, the catalogue listings, the pytest plugin and the pytest decorator."""
