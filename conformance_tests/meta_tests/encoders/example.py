"""The example of the README: a sound encoder with one defect of the table put into it."""

from conformance_tests.meta_tests.encoders.broken_attention import ScaledByModelWidth
from conformance_tests.meta_tests.encoders.defects import encoder_with

scaled_by_model_width = encoder_with(ScaledByModelWidth)
