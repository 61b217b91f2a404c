"""Tests of the room `isolation`."""
