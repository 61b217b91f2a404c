"""The harness: what a check may ask of a run."""
