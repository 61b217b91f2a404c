"""The encoder that parameters determine by their canonical paths."""

import pytest
import torch

from conformance_tests.identification.structure import structure
from conformance_tests.subjects.hints import Hints
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import BERT


@pytest.mark.parametrize("norm", ["norm_embedding", "layers.0.norm_1"])
def test_a_norm_with_a_shift_alone_is_that_of_no_encoder(norm: str) -> None:
    """Each norm that shifts scales as well: a reading by names has taken the scale for something else."""
    encoder = Encoder(BERT, Dimensions(d_model=4, h=2, d_ff=3, N=1, V=5, max_len=7))
    parameters = {path: torch.ones(shape) for path, shape in encoder.parameter_shapes().items()}
    assert structure(parameters, Hints()).profile["norm"] is encoder.profile["norm"]
    del parameters[f"{norm}.gamma"]
    with pytest.raises(SpecificationError, match="no norm has beta alone"):
        structure(parameters, Hints())
