"""Tests of the room `identification`."""
