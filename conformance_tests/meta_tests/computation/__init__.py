"""Tests of the room `computation`."""
