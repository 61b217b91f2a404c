"""Ready-made subjects for encoders that are no torch modules; each imports its framework when one is handed in."""
