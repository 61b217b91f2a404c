"""Tests of the room `parameters`."""
