"""Tests of the room `diagnosis`."""
