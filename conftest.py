"""Shape annotations are executed: whatever the tests of this repository compute, beartype checks each equation.

The hook must stand before the topics are imported, hence here; users of the package never load it.
"""

from jaxtyping import install_import_hook

from encoder_spec.equation import TOPICS

install_import_hook([f"encoder_spec.{topic}" for topic in TOPICS], "beartype.beartype")
