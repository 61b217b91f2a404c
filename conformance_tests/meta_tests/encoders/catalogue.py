"""Every encoder of the zoo, by kind: importing a file of encoders registers what it defines."""

from conformance_tests.meta_tests.encoders import (  # noqa: F401
    ambiguous_models,
    ambiguous_names,
    broken_attention,
    broken_inputs,
    broken_layers,
    broken_stacks,
    broken_torch,
    tutorials_arrays,
    tutorials_calls,
    tutorials_channels,
    tutorials_entrances,
    tutorials_heads,
    tutorials_hints,
    tutorials_inputs,
    tutorials_kinds,
    tutorials_letters,
    tutorials_lists,
    tutorials_names,
    tutorials_norms,
    tutorials_outputs,
    tutorials_packing,
    tutorials_stacked,
    tutorials_told_by_shape,
    tutorials_vectors,
    tutorials_wholes,
)
from conformance_tests.meta_tests.encoders.ambiguous import AMBIGUOUS, Ambiguous
from conformance_tests.meta_tests.encoders.defects import DEFECTS, Defect
from conformance_tests.meta_tests.encoders.tutorials import TUTORIALS, Tutorial


def all_tutorials() -> dict[str, Tutorial]:
    """Return each encoder in the style of a tutorial, by name."""
    return TUTORIALS


def all_defects() -> dict[str, Defect]:
    """Return each encoder that is broken on purpose, by name."""
    return DEFECTS


def all_ambiguous() -> dict[str, Ambiguous]:
    """Return each encoder that cannot be judged as it stands, by name."""
    return AMBIGUOUS
