"""Encoders to judge, and the tests that judge them."""
