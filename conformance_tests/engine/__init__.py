"""One question in, one report out."""
