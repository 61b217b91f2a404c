"""Processes: each target is judged where it can harm nothing else."""
