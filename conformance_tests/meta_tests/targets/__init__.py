"""Tests of the room `targets`."""
