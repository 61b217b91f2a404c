"""Independent NumPy evaluations of the equations, in index notation, one module per topic.

An oracle has the name and the arguments of its equation's function. It is written
from the formula alone: it imports no torch and nothing of the implementations.
"""
