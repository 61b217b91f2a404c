"""Subjects: how an encoder is called and watched, in each framework."""
