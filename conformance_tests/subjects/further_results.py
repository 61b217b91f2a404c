"""Results beside the hidden states, or behind them: each sequence has its own part of these.

Whatever is computed there, another sequence in the batch changes nothing of it, nor does what stands at padding.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from conformance_tests.numerics.probes import Probe
from conformance_tests.subjects.calling import with_another_sample
from conformance_tests.subjects.masks import SAME, UNITS, is_same

Results = Callable[[tuple[Tensor, ...], Tensor | None], Sequence[Tensor]]
"""The floating arrays that a call returns, with a mask or without; none if the encoder refuses."""


def mixes_samples(results: Results, plain: Probe) -> bool:
    """Return whether another sequence changes more of some result than its part.

    Random results are left out, and numbers of the whole batch, such as losses. So are similarities of all sequences
    with each other, (B, B): any two change one.
    """
    x, *others = plain.inputs
    before, again = (results((x, *others), None) for _ in range(2))
    after = [results((with_another_sample(x, b), *others), None) for b in range(len(x))]
    for place, (one, same) in enumerate(zip(before, again, strict=False)):
        changed = [changes(one, results[place]) for results in after if place < len(results)]
        if torch.equal(one, same) and one.shape != (len(x), len(x)) and len(changed) == len(x) and is_mixed(changed):
            return True
    return False


def changes(one: Tensor, other: Tensor) -> Tensor:
    """Return which entries of a result differ; all, where it has another shape."""
    if one.shape != other.shape:
        return torch.ones(one.shape, dtype=torch.bool)
    return ~torch.isclose(one, other, rtol=0, atol=max(SAME, UNITS * torch.finfo(one.dtype).eps))


def is_mixed(changed: Sequence[Tensor]) -> bool:
    """Return whether entries of a result change with other sequences than those to which they belong.

    Args:
        changed: which entries change with another first sequence, which with another second one, and so on.
    """
    samples, shape = len(changed), changed[0].shape
    for axis in (a for a in range(min(2, len(shape))) if shape[a] % samples == 0):
        parts = [torch.stack(c.tensor_split(samples, axis)).flatten(1).any(1) for c in changed]
        if all(not bool(part[torch.arange(samples) != b].any()) for b, part in enumerate(parts)):
            return False
    reads = [bool(c.any()) for c in changed]
    if len(shape) > 1 and any(reads) != all(reads):
        return True
    has_parts = changed[0].numel() % samples == 0 and (len(shape) > 1 or shape == (samples,))
    return has_parts and float(changed[0].double().mean()) > 1.5 / samples  # halfway to the share of another one


def reads_padding(results: Results, padded: Probe) -> bool:
    """Return whether what stands at padding changes a vector for each sequence.

    One of a sequence whose first and last positions are kept: some models read either, wherever their texts end.
    """
    keep, other = padded.keep, padded.with_other_padding(1.0)
    assert keep is not None
    within = keep[:, 0] & keep[:, -1] & ~keep.all(1)
    given = (results(probe.inputs, probe.keep) for probe in (padded, padded, other))
    vectors = ([r[within] for r in each if r.ndim == len(("B", "d")) and len(r) == len(keep)] for each in given)
    return any(is_same(one, same) and not is_same(one, then) for one, same, then in zip(*vectors, strict=False))
