"""How far a judgement looks: what was asked and answered, at which sizes, in which precisions, with whose weights."""

import math
import threading

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.errors import Disagreement, Unsupported
from conformance_tests.harness.computed import LARGE, Case
from conformance_tests.harness.extent import AS_USED, DRAWN, OWN, WITH_GRADIENTS, WITHOUT_GRADIENTS, Extent
from conformance_tests.harness.question import Question
from conformance_tests.harness.weight_sets import GIVEN
from conformance_tests.identification.opening import opened
from conformance_tests.meta_tests.harness.conftest import Runs
from conformance_tests.numerics.probes import WHOLE, Probe
from conformance_tests.subjects.torch_subject import TorchSubject
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import BERT


def encoder_of_torch() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Refusing(nn.Module):
    """Takes sequences of a few positions alone, and says what it was called with."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.encoder, self.most = encoder_of_torch(), most

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.most:
            raise IndexError("beyond the table")
        return self.encoder(x)  # type: ignore[no-any-return]


class Masked(Refusing):
    """Takes a mask as well, True = keep."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if x.shape[1] > self.most:
            raise IndexError("beyond the table")
        return self.encoder(x, src_key_padding_mask=None if mask is None else ~mask)  # type: ignore[no-any-return]


class Watched(nn.Module):
    """Keeps in which dtypes, modes and threads it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder_of_torch()
        self.seen: set[tuple[torch.dtype, bool, bool]] = set()

    def forward(self, x: Tensor) -> Tensor:
        is_served = threading.current_thread() is not threading.main_thread()
        self.seen.add((x.dtype, torch.is_inference_mode_enabled(), is_served))
        return self.encoder(x)  # type: ignore[no-any-return]


def test_sizes_are_in_order_and_words_too() -> None:
    """Each once, in ascending order; of words the ordinary ones come first."""
    extent = Extent()
    x = torch.zeros(3, 7, 4)
    extent.add(Probe((x,)), torch.bfloat16, AS_USED, OWN)
    extent.add(Probe((x[:, :2],)), torch.float64, WITHOUT_GRADIENTS, DRAWN)
    extent.add(Probe((x[:1],)), torch.float64, WITH_GRADIENTS, DRAWN)
    assert extent.as_data() == {
        "positions": [2, 7],
        "sequences": [1, 3],
        "dtypes": ["float64", "bfloat16"],
        "modes": [WITH_GRADIENTS, WITHOUT_GRADIENTS, AS_USED],
        "weights": [OWN, DRAWN],
    }
    assert not any(Extent().as_data().values())


def test_what_is_answered_is_part_of_the_extent_and_what_is_refused_is_not() -> None:
    with opened(Refusing(50), Question("torch-post-ln")) as run:
        run.extent = Extent()
        run.encode(Case(GIVEN), run.probes["few"])
        assert run.extent.as_data()["positions"] == [2]
        assert (run.extent.sequences, run.extent.weights, run.extent.modes) == ({2}, {OWN}, {WITH_GRADIENTS})
        with pytest.raises(Disagreement, match="beyond the table"):
            run.encode(Case(gradients=False), run.probes["long"])
        assert run.extent.as_data()["positions"] == [2]


@pytest.mark.parametrize(("most", "asked"), [(40, 7), (50, 41), (256, 41), (257, 257)])
def test_an_encoder_is_asked_for_as_many_positions_as_it_takes(most: int, asked: int) -> None:
    """Lengths of 7, 41 and 257 are tried; the error for the first that is refused is kept."""
    with opened(Refusing(most), Question("torch-post-ln")) as run:
        assert run.longest.positions == asked
        assert ("beyond the table" in run.longest.refusal) == (asked < 257)
        # Without a mask no sequence is padded.
        assert run.cases(*LARGE) == [*LARGE[: asked == 257], LARGE[1]]


@pytest.mark.parametrize(("most", "asked"), [(50, [LARGE[1], LARGE[3]]), (257, [*LARGE[:4]])])
def test_large_inputs_are_padded_where_masks_are_taken(most: int, asked: list[Case]) -> None:
    """Unless they are longer than what is read."""
    with opened(Masked(most), Question("torch-post-ln")) as run:
        assert run.cases(*LARGE) == asked


class WithTable(EncoderModule):
    """BERT with a table of 31 positions, which takes so many of them alone."""

    def __init__(self, most: int) -> None:
        super().__init__(Encoder(BERT, Dimensions(d_model=20, h=2, d_ff=28, N=1, V=31, max_len=31)))
        self.most = most

    def forward(self, *inputs: Tensor, keep: Tensor | None = None) -> Tensor:
        if inputs[0].shape[1] > self.most:
            raise IndexError("beyond the table")
        return super().forward(*inputs, keep=keep)


@pytest.mark.parametrize(("most", "longest", "is_asked"), [(31, 29, True), (30, 29, False), (28, 7, False)])
def test_a_table_is_looked_at_to_its_end_where_that_is_not_refused(most: int, longest: int, is_asked: bool) -> None:
    """Two rows are spared elsewhere; an encoder that keeps its last row for something else refuses that one alone."""
    with opened(WithTable(most), Question()) as run:
        assert (run.longest.positions, Case(probe=WHOLE) in run.cases(*LARGE)) == (longest, is_asked)
        assert ("beyond the table" in run.longest.refusal) == (most < 29)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_encoder_is_called_as_its_owner_calls_it(dtype: torch.dtype) -> None:
    """In its own precision, in inference mode and in another thread; there it rounds as that precision does."""
    watched = Watched().to(dtype)
    assert TorchSubject(watched).kept_in() is dtype
    with opened(watched, Question("torch-post-ln")) as run:
        watched.seen = set()
        used = run.as_used()
        assert watched.seen == {(dtype, True, True)}
        error = float((used.got - used.want).abs().max())
        assert used.dtype is dtype
        assert error < (used.allowed(math.inf) or 1e-12)
        assert (used.allowed(math.inf) is None) == (dtype is torch.float64)
        assert run.encode(Case(), run.probes["plain"]).dtype is torch.float64


@pytest.mark.parametrize("number", [torch.nan, torch.inf, 1e30])
def test_nothing_is_demanded_of_weights_that_nobody_gave(number: float) -> None:
    """One such bias is enough; the weights that the suite draws are as moderate as ever."""
    encoder = encoder_of_torch()
    with torch.no_grad():
        encoder.layers[0].linear1.bias[3] = number
    with opened(encoder, Question("torch-post-ln")) as run:
        assert run.without_value == ["layers.0.linear1.bias"]
        with pytest.raises(Unsupported, match="its own weights hold NaN"):
            run.as_used()
        assert run.agrees(Case())
        assert all(w.abs().max() < 9 for w in run.weight_sets["perturbed"].values())


@pytest.mark.parametrize("deviation", ["last-sequences-not-encoded", "keys-in-full-chunks-alone"])
def test_what_begins_at_some_size_is_the_first_wrong_case(run_of: Runs, deviation: str) -> None:
    """Chunks of 16: of the ordinary probes only the one of 41 positions has more, and none as many sequences."""
    first = run_of("torch-post-ln", deviation).first_wrong
    assert first == (Case(probe="many") if "keys" in deviation else LARGE[1])


def test_a_region_of_mixed_precision_shows_only_as_used(run_of: Runs) -> None:
    """In float64 it agrees everywhere."""
    run = run_of("torch-post-ln", "layers-round-float32-to-bfloat16")
    assert run.first_wrong is None
    with pytest.raises(Disagreement, match="Z in float32 with its own weights"):
        run.demand_agreement_as_used()


class RefusesPadding(Masked):
    """Raises where anything is padded, in float32 alone."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and x.dtype is torch.float32 and not mask.all():
            raise RuntimeError("overflow")
        return super().forward(x, mask)


def test_a_mask_that_is_refused_only_as_the_encoder_is_kept_is_a_failure() -> None:
    """One that refuses all calls so cannot be looked at; this one is, and fails its owner."""
    with opened(RefusesPadding(300), Question("torch-post-ln")) as run:
        assert run.as_used().dtype is torch.float32
        with pytest.raises(Disagreement, match="in float32, as it is kept, encoder: the subject raised RuntimeError"):
            run.demand_agreement_as_used()
