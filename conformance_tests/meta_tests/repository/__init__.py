"""Tests of the repository's own machinery: workflows, releases, benchmarks."""
