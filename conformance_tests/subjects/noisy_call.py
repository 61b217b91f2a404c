"""The call whose computation is shown: a first one that goes through, with noise on what is learned."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from conformance_tests.computation.images import image_axes
from conformance_tests.errors import Unsupported
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.first_call import FirstCall, TryCall
from conformance_tests.subjects.likely_inputs import SEQUENCE, is_waveform

NO_CALL = "no call was found that the encoder accepts"


@contextmanager
def noisy_call(
    subject: CalledSubject, call: TryCall, sizes: Sizes | None
) -> Iterator[tuple[FirstCall, Mapping[str, Tensor], set[str]]]:
    """Provide a call that an encoder accepts, its weights with noise, which it has meanwhile, and the frozen names.

    Args:
        subject: the encoder.
        call: calls it.
        sizes: the numbers of sequences and positions, if they matter.

    Raises:
        Unsupported: if no call is found that it accepts.
    """
    held, frozen = subject.held(), subject.fixed()
    if frozen >= held.keys():
        frozen = set()  # an encoder that is all frozen has learned it all
    called = subject.first_call(call, sizes or Sizes())
    if called is None:
        raise Unsupported(NO_CALL)
    subject.first_sizes, subject.first_forms = Sizes(called.batch, called.length), called.forms
    subject.image_axes, shape = None, tuple(called.inputs.shape)
    if called.inputs.ndim > SEQUENCE:
        subject.learn_images(image_axes(shape)[0], shape)
    subject.in_one_axis = called.in_one_axis
    subject.ids_apart = called.inputs.ndim == SEQUENCE and not called.inputs.is_floating_point()
    # Samples of a sound are more than the positions that come back.
    subject.takes_numbers = is_waveform(called.inputs) and called.inputs.shape[1] == called.length
    noisy = subject.noisy(frozen)
    with subject.holding(noisy):
        yield called, noisy, frozen
