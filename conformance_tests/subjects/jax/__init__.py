"""Encoders that are functions of JAX, those of Flax among them, as subjects."""
