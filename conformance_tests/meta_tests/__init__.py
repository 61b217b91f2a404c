"""The tests of the suite itself."""
