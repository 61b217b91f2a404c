"""The literate, executable specification of the Transformer encoder.

An encoder is a choice of one equation per slot. The equations stand in one
module per topic (``embedding``, ``position``, ``attention``, …), each with its
formula, its shapes and its requirements; ``profiles`` names the published
choices; ``assembly`` turns a choice and dimensions into something that runs.

Nothing is imported here, so that ``import encoder_spec`` costs nothing.
"""

__version__ = "0.1.0"
SPEC_VERSION = "1"
