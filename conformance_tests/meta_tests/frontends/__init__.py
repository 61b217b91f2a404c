"""Tests of the room `frontends`."""
