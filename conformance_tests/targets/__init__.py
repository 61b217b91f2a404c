"""Targets: from a name to an encoder to a subject."""
