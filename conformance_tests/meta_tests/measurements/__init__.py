"""Measurements that take minutes, and their results on file."""
