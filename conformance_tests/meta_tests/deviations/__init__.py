"""Tests of the room `deviations`."""
