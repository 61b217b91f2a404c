"""Tests of the public API under a type checker, as a user's project sees it."""
