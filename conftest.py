"""Shape annotations are executed: beartype checks each equation that the tests of this repository evaluate.

Files that judge encoders by the dozen are the exception; ``conformance_tests/own/conftest.py`` lists them.

The hook must stand before the topics are imported, hence here; users of the package never load it.
"""

from jaxtyping import install_import_hook

from encoder_spec.equation import TOPICS

install_import_hook([f"encoder_spec.{topic}" for topic in TOPICS], "beartype.beartype")
