"""Measurements of the suite itself, and their results on file."""
