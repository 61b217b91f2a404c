"""The conformance suite of the Transformer encoder."""
