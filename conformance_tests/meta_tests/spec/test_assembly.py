"""What an encoder refuses, how it says so, and that shapes are checked while these tests run."""

import inspect
from dataclasses import replace

import pytest
import torch
from jaxtyping import TypeCheckError

from conformance_tests.meta_tests.spec.values import KEEP, close, normal, random_parameters, refused
from encoder_spec.assembly import Encoder, everything
from encoder_spec.attention import scores
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import Equation, equations
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import BERT, DATA2VEC_AUDIO, DINOV3, ESM_2, TORCH_POST_LN, VASWANI_2017, VIT, WAV2VEC2

SIZES = Dimensions(d_model=6, h=3, d_ff=11, N=2, V=13, max_len=7, patch=2)
STACK, TOKENS, SENTENCES, IMAGES = (Encoder(p, SIZES) for p in (TORCH_POST_LN, VASWANI_2017, BERT, VIT))


def ids(*shape: int) -> torch.Tensor:
    """The id 1, everywhere."""
    return torch.ones(shape, dtype=torch.long)


def test_a_missing_parameter_is_named_with_its_shape() -> None:
    """Vocabulary and width tell the shape of E: 13 rows of 6. Nothing is computed before all are there."""
    p = random_parameters(TOKENS)
    del p["E"]
    with refused(match=r"^parameter E of shape \(13, 6\) is missing$"):
        TOKENS(p, ids(2, 5))


def test_a_parameter_of_the_wrong_shape_is_named_with_both_shapes() -> None:
    """One that would broadcast too: a γ of one entry."""
    with refused(match=r"^parameter layers.1.norm_2.gamma has shape \(1,\), but the specification needs \(6,\)$"):
        STACK(random_parameters(STACK) | {"layers.1.norm_2.gamma": torch.ones(1)}, normal(0, 2, 5, 6))


def test_every_parameter_must_be_there() -> None:
    """Each in its turn is missed; of several, the first on the walk is named."""
    p = random_parameters(STACK)
    for path in p:
        with refused(match=rf"^parameter {path} of shape \(.*\) is missing$"):
            STACK({other: p[other] for other in p if other != path}, normal(0, 2, 5, 6))
    with refused(match=r"^parameter layers.0.W_Q of shape \(6, 6\) is missing$"):
        STACK({}, normal(0, 2, 5, 6))


NARROW = Dimensions(d_model=6, h=3, d_ff=11, N=2, V=13, max_len=7, patch=2, d_e=4, channels=5, segments=3)
READ = {
    "B n d_model": TORCH_POST_LN,
    "B n": VASWANI_2017,
    "B channels height width": VIT,
    "B n d_model ": VASWANI_2017.replace(embedding="vectors"),
    "B n d_e": VASWANI_2017.replace(embedding="vectors", input="factorised"),
    "B n channels": VASWANI_2017.replace(embedding="features"),
    "B samples": VASWANI_2017.replace(embedding="waveform"),
}


@pytest.mark.parametrize("axes", READ)
def test_axes_of_the_input_are_those_that_its_reader_declares(axes: str) -> None:
    """The embedding reads what is given, in the narrow width where the embedding is factorised."""
    assert Encoder(READ[axes], NARROW).reads == tuple(axes.split())


def test_an_equation_without_shapes_declares_no_axes() -> None:
    """A function of one's own need not say what it reads."""
    bare = replace(equations()["embedding.vectors"], function=lambda x: x)
    assert Encoder(VASWANI_2017.replace(embedding=bare), NARROW).reads == ()


def test_the_width_is_demanded_of_the_first_input_alone() -> None:
    """Segment ids, which stand behind vectors or an image, have no width."""
    vectors = Encoder(BERT.replace(embedding="vectors"), NARROW)
    p, segments = random_parameters(vectors), ids(2, 5)
    assert vectors(p, normal(0, 2, 5, 6), segments).shape == (2, 5, 6)
    with refused(match=r"^the input must have width d_model = 6, but has shape \(2, 6, 7\)$"):
        vectors(p, normal(0, 2, 6, 7), ids(2, 6))
    image = Encoder(VIT.replace(segment="added"), NARROW)
    assert image(random_parameters(image), normal(0, 2, 5, 4, 4), ids(2, 5)).shape == (2, 5, 6)


def test_embeddings_of_another_width_are_refused() -> None:
    """Embeddings of width 7 where d_model is 6; no product would say which of the two is wrong."""
    with refused(match=r"^the input must have width d_model = 6, but has shape \(2, 5, 7\)$"):
        STACK(random_parameters(STACK), normal(0, 2, 5, 7))


def test_a_mask_for_each_query_is_obeyed() -> None:
    """Where query j keeps the keys up to j, what follows might as well not exist, through both layers."""
    p, x = random_parameters(STACK), normal(1, 2, 5, 6)
    causal = torch.ones(2, 5, 5, dtype=torch.bool).tril()
    close(STACK(p, x, keep=causal)[:, :3], STACK(p, x[:, :3], keep=causal[:, :3, :3]))
    close(STACK(p, x, keep=causal)[:, :1], STACK(p, x[:, :1]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8], ids=str)
def test_a_mask_of_numbers_is_refused(dtype: torch.dtype) -> None:
    """Ones and zeros could mean either polarity."""
    with refused(match=rf"^the mask must be boolean \(True = keep\), but its dtype is {dtype}$"):
        STACK(random_parameters(STACK), normal(0, 2, 5, 6), keep=KEEP.to(dtype))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 1, 5, 5)], ids=str)
def test_a_mask_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    """Without a batch; for another batch; with an axis for the heads, which have no masks of their own."""
    with refused(match=r"^the mask must have shape \(B, n\) or \(B, n, n\) with B = 2, but has \("):
        STACK(random_parameters(STACK), normal(0, 2, 5, 6), keep=torch.ones(shape, dtype=torch.bool))


def test_a_mask_of_the_wrong_length_is_refused() -> None:
    """Unwrapped, since here the annotations are executed and refuse it before the equation does."""
    run = STACK.bind(random_parameters(STACK), evaluate=lambda equation: inspect.unwrap(equation.function))
    with refused(match="^attention.mask: the mask covers 4 keys, but the sequence has 5 positions$"):
        run(KEEP[:, None, :4], normal(0, 2, 5, 6))


@pytest.mark.parametrize("id", [-1, 13])
def test_an_id_outside_its_table_is_refused(id: int) -> None:
    """Of thirteen rows the last is 12."""
    with refused(match=f"^embedding.lookup: ids must lie in 0 … 12, the rows of the table, but range from .*{id}"):
        TOKENS(random_parameters(TOKENS), torch.tensor([[5, id, 5]]))


def test_a_segment_outside_its_table_is_refused() -> None:
    """Two segments have the ids 0 and 1; the message speaks of their table, not of the vocabulary."""
    with refused(match="ids must lie in 0 … 1, the rows of the table, but range from 2 to 2"):
        SENTENCES(random_parameters(SENTENCES), ids(1, 3), 2 * ids(1, 3))


def test_a_sequence_longer_than_its_table_of_positions_is_refused() -> None:
    """Seven rows serve seven tokens; of an image, six patches and the class token."""
    SENTENCES(random_parameters(SENTENCES), ids(2, 7), 0 * ids(2, 7))
    with refused(
        match="^position.learned: a sequence of 8 is longer than the table's 7 rows: shorten it, or raise max_len$"
    ):
        SENTENCES(random_parameters(SENTENCES), ids(2, 8), 0 * ids(2, 8))
    with refused(match="a sequence of 9 is longer than the table's 7 rows"):
        IMAGES(random_parameters(IMAGES), normal(0, 1, 3, 4, 8))


def test_the_grid_of_an_image_has_as_many_rows_and_columns_as_patches_fit() -> None:
    """6 × 12 pixels, in patches of 2 × 3, are 3 rows of 4; one that reads no grid is left as it is."""
    encoder = Encoder(DINOV3, Dimensions(d_model=8, h=2, d_ff=5, N=1, patch=2, patch_width=3))
    sizes = encoder.seeing(torch.zeros(1, 3, 6, 12)).dimensions
    assert (sizes.rows, sizes.columns) == (3, 4)
    assert STACK.seeing(torch.zeros(1, 3, 6, 12)) is STACK


def test_a_part_that_reads_the_mask_keeps_everything_unless_told_otherwise() -> None:
    """Beside the parameters may stand a mask; without one, a convolution of positions hears all of them."""
    encoder = Encoder(WAV2VEC2, Dimensions(d_model=8, h=2, d_ff=5, N=1, kernel=4, d_group=2))
    parameters, X = random_parameters(encoder), normal(0, 2, 5, 8)
    heard = encoder.bind(parameters, slot="position")(X)
    close(heard, encoder.bind({**parameters, "keep": torch.ones(1, 1, 5, dtype=torch.bool)}, slot="position")(X))
    hidden = torch.tensor([[[True, True, True, False, False]]])
    assert not torch.equal(heard, encoder.bind({**parameters, "keep": hidden}, slot="position")(X))


def test_a_part_that_reads_ids_reads_those_of_the_call() -> None:
    """Tokens with the id 3 are 0, and the others scaled by hand; by the whole, by its stack, and by the part itself."""
    sizes = Dimensions(d_model=8, h=2, d_ff=5, N=1, V=13)
    encoder = Encoder(ESM_2.replace(mask_token_id=3, masked_share=0.5), sizes)
    p, tokens = random_parameters(encoder), torch.tensor([[3, 1, 4, 1], [5, 2, 3, 3]])
    keep = torch.tensor([[True, True, True, False], [True, True, True, True]])
    # One of three valid tokens is masked, and two of four.
    factors = torch.tensor([0.75, 1.0], dtype=torch.float64)[:, None] * (tokens != 3)

    def by_hand(X: torch.Tensor) -> torch.Tensor:
        return factors[..., None] * X

    want = Encoder(ESM_2.replace(embedding_scale=by_hand), sizes)(p, tokens, keep=keep)
    close(encoder(p, tokens, keep=keep), want)
    close(encoder.bind(p)(keep[:, None], tokens), want)
    pairs = Encoder(encoder.profile.replace(segment="added"), sizes)
    close(pairs({**p, "E_seg": torch.zeros(2, 8)}, tokens, 0 * tokens, keep=keep), want)
    in_call = {**p, "keep": keep[:, None], "ids": tokens}
    close(encoder.bind(in_call, slot="embedding_scale")(p["E"][tokens]), by_hand(p["E"][tokens]))
    first = encoder.bind(p, slot="layer", path="layers.0")
    assert first(p["E"][tokens], keep[:, None]).shape == (2, 4, 8)


def test_the_mask_of_a_stack_reaches_the_parts_that_read_it() -> None:
    """As it does when the whole is called."""
    encoder = Encoder(WAV2VEC2, Dimensions(d_model=8, h=2, d_ff=5, N=1, kernel=4, d_group=2, widths=(3,), strides=(2,)))
    p, sounds = random_parameters(encoder), normal(0, 2, 11)
    keep = torch.tensor([[True, True, True, False, False], [True] * 5])
    close(encoder.bind(p)(keep[:, None], sounds), encoder(p, sounds, keep=keep))


def test_sizes_stand_in_one_order_behind_the_choices() -> None:
    """How many layers, heads and further tokens there are, how far a convolution reaches, and then the widths."""
    profile = DATA2VEC_AUDIO.replace(registers="registers", embedding="vectors")
    named = Encoder(
        profile, Dimensions(d_model=8, h=2, d_ff=5, N=1, r=3, kernel=4, d_group=2, convolutions=6)
    ).choices()
    sizes = [name for name in named if name in {symbol.word for symbol in SYMBOLS.values()}]
    assert named["position_convolutions"] == 6
    assert sizes[-8:] == [
        "num_layers",
        "num_heads",
        "num_registers",
        "position_kernel",
        "group_width",
        "position_convolutions",
        "d_model",
        "d_ff",
    ]


def test_widths_and_strides_of_stages_are_named_where_there_are_stages() -> None:
    """In one text each, and the variant of the first stage where it is another one; elsewhere none is."""
    sizes = Dimensions(d_model=8, h=2, d_ff=5, N=1, kernel=4, d_group=2, widths=(5, 3), strides=(2, 1))
    named = Encoder(WAV2VEC2, sizes).choices()
    assert (named["stage_widths"], named["stage_strides"]) == ("5, 3", "2, 1")
    assert (named["stage"], named["stages.0"]) == ("convolution", "convolution-norm-over-time")
    assert (
        not {"stage", "stages.0", "stage_widths"}
        & Encoder(WAV2VEC2.replace(embedding="vectors"), sizes).choices().keys()
    )


def test_parameters_of_stages_stand_under_their_numbers() -> None:
    """The first stage reads one channel, the others as many as they return; a norm over time may have another ε.

    A stage without a number is the last one.
    """
    sizes = Dimensions(d_model=8, h=2, d_ff=5, N=1, kernel=4, d_group=2, channels=3, widths=(5, 3), strides=(2, 1))
    encoder = Encoder(WAV2VEC2.replace(**{"stage.eps": 0.5}), sizes)
    shapes = {path: shape for path, shape in encoder.parameter_shapes().items() if path.startswith("stages.")}
    assert shapes == {
        **{"stages.0.W_stage": (5, 1, 3), "stages.0.b_stage": (3,)},
        **{"stages.0.gamma_stage": (3,), "stages.0.beta_stage": (3,)},
        **{"stages.1.W_stage": (3, 3, 3), "stages.1.b_stage": (3,)},
    }
    constants = [place.constants for place in encoder.places() if place.equation.slot == "stage"]
    assert constants == [{"stride": 2, "eps": 0.5}, {"stride": 1}]
    many = Encoder(DATA2VEC_AUDIO, sizes.replace(widths=(5,) * 10 + (3,), strides=(1,) * 10 + (2,)))
    assert many.parameter_shapes()["stages.10.W_stage"] == (3, 3, 3)
    by_itself, *_ = many.places("stage")
    assert by_itself.constants == {"stride": 2}
    assert by_itself.parameters["W_stage"] == ("3", "channels", "channels")


def test_an_encoder_without_an_input_is_refused() -> None:
    """Tokens, images or embeddings: there must be some."""
    with refused(match="^the encoder needs an input: token ids, an image, or embeddings"):
        STACK(random_parameters(STACK))


def test_the_mask_that_keeps_everything_stands_where_the_first_input_stands() -> None:
    """Tokens may lie on another device than their segments; a mask that is given stays."""
    tokens, segment_ids = torch.ones(2, 5, device="meta"), torch.ones(2, 5)
    mask = everything(None, (tokens, segment_ids))
    assert (mask.device, mask.dtype, mask.shape) == (tokens.device, torch.bool, (1, 1))
    assert everything(KEEP, (tokens,)) is KEEP


@pytest.mark.parametrize("equation", equations().values(), ids=lambda equation: equation.id)
def test_every_equation_runs_under_the_checker_of_shapes(equation: Equation) -> None:
    """The checker wraps the function; without it, annotations would be mere comments."""
    assert inspect.unwrap(equation.function) is not equation.function


def test_a_wrong_shape_is_found_by_the_checker_of_shapes() -> None:
    """Five queries, but four keys: Q Kᵀ exists, and is no self-attention."""
    with pytest.raises(TypeCheckError, match=r"parameter 'K'.*\n.*f64\[2,3,4,7\]"):
        scores(normal(0, 2, 3, 5, 7), normal(1, 2, 3, 4, 7))
