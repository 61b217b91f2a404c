"""Tests of the room `subjects`."""
