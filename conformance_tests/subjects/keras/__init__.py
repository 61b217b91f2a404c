"""Encoders of Keras and keras-hub as subjects."""
