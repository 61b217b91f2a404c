"""Parameters: which array of an encoder is which."""
