"""Tests of the room `quality`."""
