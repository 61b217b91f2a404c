"""The computation of an encoder as a graph, and reading an encoder off it. See README.md."""
