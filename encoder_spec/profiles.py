"""Profiles: published choices of one equation per slot.

``VASWANI_2017`` fills every slot; each other profile is another one with some
slots replaced. The names on the right are those of the variants, as reports and
profile files write them; ``encoder-spec profiles NAME`` shows a choice in full.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Self, TypeVar

from encoder_spec.equation import STACKS, Equation, places, slots, variants
from encoder_spec.notation import SYMBOLS, SpecificationError, demand

CONSTANTS = {
    SYMBOLS[name].word: name
    for name in (
        *("eps", "P_drop", "offset", "theta", "fraction", "origin", "reference", "farthest", "window", "M"),
        *("mask_id", "p_mask"),
    )
}

COUNTED = ("position_offset", "decoder_layers", "mask_token_id")
"""The constants that are whole numbers."""

REPEATED = "repeated"
"""The last word of a choice that layers take in turn: ``global, local, local, repeated``."""


@dataclass(frozen=True)
class Profile:
    """One equation for each slot, the constants, and where the choice was published.

    ``in_turn`` has the slots and constants in which the layers differ, each with what they choose in turn; of these
    ``equations`` and ``constants`` have the choice of the first layer.

    ``sizes`` has those of the base model that was published with it, by letter; none where they are those of Vaswani et
    al., or where nothing of that kind was published.
    """

    name: str
    source: str
    equations: Mapping[str, Equation]
    constants: Mapping[str, float]
    sizes: Mapping[str, int] = field(default_factory=dict)
    in_turn: Mapping[str, "tuple[Equation | float, ...]"] = field(default_factory=dict)

    def __getitem__(self, slot: str) -> Equation:
        return self.equations[slot]

    def replace(self, *, name: str = "", source: str = "", **choices: Any) -> Self:
        """Return this choice with other slots and constants where they are given.

        A slot, or one place of a slot such as ``norm_final``, takes the name of a variant,
        an equation, or any function with the arguments of that slot's equations. Constants are ``eps``, ``p_drop`` and
        others, or one of them for one place: ``norm_final.eps``. In the place of one choice a sequence has those that
        the layers take in turn; in one text it is ``global, local, local, repeated``.

        Raises:
            SpecificationError: for an unknown slot, variant or constant.
        """
        filled: dict[str, Any] = dict(self.equations)
        constants: dict[str, Any] = dict(self.constants)
        in_turn = dict(self.in_turn)
        for key, choice in choices.items():
            place, _, word = key.rpartition(".")
            of = f"{place}.{CONSTANTS[word]}".lstrip(".") if word in CONSTANTS else key
            taken = once([number(word, c) if word in CONSTANTS else fill(key, c) for c in several(key, choice)])
            (constants if word in CONSTANTS else filled)[of] = taken[0]
            in_turn.pop(of, None)
            if len(taken) > 1:
                in_turn[of] = taken
        return replace(
            self,
            name=name or self.name,
            source=source or self.source,
            equations=filled,
            constants=constants,
            in_turn=in_turn,
        )

    def sized(self, **sizes: int) -> Self:
        """Return this choice with the sizes of its base model, by letter."""
        return replace(self, sizes={**self.sizes, **sizes})

    def choices(self, N: int | None = None) -> dict[str, str | float]:
        """Return the variant in every slot and every constant, by name; those of N layers if there are no more."""
        named = {slot: slot for slot in self.equations} | {key: constant_word(key) for key in self.constants}
        return {word: in_words(taken_by(N, self.choice(key))) for key, word in named.items()}

    def choice(self, key: str) -> "tuple[Equation | float, ...]":
        """Return what layers choose in turn for a slot or a constant: one choice, where all choose alike."""
        everywhere = self.equations[key] if key in self.equations else self.constants[key]
        return self.in_turn.get(key, (everywhere,))

    def equation_at(self, slot: str, path: str) -> Equation:
        """Return the equation in a slot, in the layer to which a path leads."""
        return at_layer(self.choice(slot), path)  # type: ignore[return-value]

    def slot_at(self, path: str) -> str:
        """Return the slot that fills the place at a path: the place itself where it has a separate equation."""
        place = path.rpartition(".")[2]
        return place if place in self.equations else place.partition("_")[0]

    def constant(self, name: str, path: str, slot: str = "") -> float:
        """Return the constant that an equation at ``path`` reads: that of its place or its slot, if these have one."""
        separate = (f"{where}.{name}" for where in (path.rpartition(".")[2], slot))
        read = next((key for key in separate if key in self.constants), name)
        return at_layer(self.choice(read), path)  # type: ignore[return-value]


Choice = TypeVar("Choice")


def in_turn_by(layers: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the fewest choices that give those of all layers if they are repeated, the last time perhaps in part."""
    period = next(p for p in range(1, len(layers) + 1) if all(c == layers[l % p] for l, c in enumerate(layers)))
    return tuple(layers[:period])


def once(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return choices that are repeated, without those that are repeated among them already."""
    period = len(in_turn_by(choices))
    return tuple(choices[:period] if len(choices) % period == 0 else choices)


def taken_by(N: int | None, choices: Sequence[Choice]) -> Sequence[Choice]:
    """Return the choices that N layers take in turn; all of them if it is not said how many layers there are."""
    return choices if N is None else in_turn_by([choices[l % len(choices)] for l in range(N)])


def several(key: str, choice: Any) -> Sequence[Any]:
    """Return the choices that layers take in turn, as a person gives them: in a sequence, or in words."""
    choices = choice
    if isinstance(choice, str) and choice.endswith(f", {REPEATED}"):
        choices = [c if key.rpartition(".")[2] not in CONSTANTS else as_number(c) for c in choice.split(", ")[:-1]]
    if not isinstance(choices, list | tuple):
        return [choice]
    demand(len(choices) > 0, f"{key} must be a choice, or several that layers take in turn, but is empty")
    return choices


def as_number(written: str | float) -> float | str:
    """Return the number that is written; what is none stays as it is."""
    try:
        return float(written)
    except ValueError:
        return written


def in_words(choices: Sequence[Equation | str | float]) -> str | float:
    """Return a choice by its name; several that are repeated are named in turn."""
    named = once([c.variant if isinstance(c, Equation) else c for c in choices])
    words = (c if isinstance(c, str) else repr(c).removesuffix(".0") for c in named)
    return named[0] if len(named) == 1 else ", ".join([*words, REPEATED])


def at_layer(choices: Sequence[Choice], path: str) -> Choice:
    """Return which of the choices that layers take in turn is that of the layer to which a path leads."""
    stack, _, rest = path.partition(".")
    return choices[int(rest.partition(".")[0]) % len(choices) if stack == "layers" else 0]


def is_layer(key: str) -> bool:
    """Return whether a choice is that of one layer or stage alone, such as ``layers.0``."""
    stack, _, number = key.partition(".")
    return stack in STACKS and number.isdigit()


def slot_of(key: str) -> str:
    """Return the slot of a choice, which may be that of one layer, one stage or one place."""
    if is_layer(key):
        return STACKS[key.partition(".")[0]]
    return key.partition("_")[0] if key in places() else key


def constant_word(key: str) -> str:
    """Return the name under which reports and profile files write a constant."""
    place, _, letter = key.rpartition(".")
    return f"{place}.{SYMBOLS[letter].word}".lstrip(".")


def number(name: str, value: Any) -> float:
    """Return a constant as given by a person: a non-negative number, else a SpecificationError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise SpecificationError(f"{name} must be a non-negative number, but is {value!r}")
    return int(value) if name in COUNTED else float(value)


def fill(slot: str, choice: str | Equation | Callable[..., Any]) -> Equation:
    """Return the equation that ``choice`` means in ``slot``.

    Raises:
        SpecificationError: for a slot or variant that does not exist.
    """
    slot = slot_of(slot)
    if slot not in slots():
        known = ", ".join([*slots(), *CONSTANTS])
        raise SpecificationError(f"there is no slot or constant named {slot!r}: choose among {known}")
    if isinstance(choice, Equation):
        return choice
    if callable(choice):
        name = getattr(choice, "__name__", type(choice).__name__)
        return Equation(f"{slot}.{name}", slot, name, choice)
    known_here = variants(slot)
    if not isinstance(choice, str) or choice not in known_here:
        raise SpecificationError(f"slot {slot} has no variant {choice!r}: choose among {', '.join(known_here)}")
    return known_here[choice]


def define(name: str, source: str, **choices: Any) -> Profile:
    """Make a profile from a choice for every slot and constant."""
    return Profile(name, source, {}, {}).replace(**choices)


VASWANI_2017 = define(
    "vaswani-2017",
    "Vaswani et al. 2017, §3; ε as in S0 §4, biases as in its shapes",
    stack="plain",
    input="embedded",
    embedding="lookup",
    stage="convolution",
    feature_norm="none",
    token_norm="none",
    token_activation="none",
    embedding_scale="sqrt-d-model",
    cls="none",
    position="sinusoidal",
    segment="none",
    registers="none",
    embedding_norm="none",
    layer="post-ln",
    sharing="none",
    multihead="self-attention",
    groups="side-by-side",
    projections="linear",
    split="heads",
    attention="dot-product",
    rotation="none",
    angles="geometric",
    coordinates="counted",
    axes="rows-first",
    scores="scaled",
    bias="none",
    reach="global",
    mask="boolean",
    weights="softmax",
    values="average",
    merge="concat",
    output="linear",
    residual="sum",
    dropout="none",
    noise="uniform",
    norm="layer-norm",
    statistics="features",
    ffn="affine",
    activation="relu",
    final_norm="none",
    head="none",
    pool="first",
    length="any",
    transform="pooler",
    reader="attention-pool",
    eps=1e-6,
    p_drop=0.1,
    position_offset=0,
    rotary_base=10000,
    rotary_fraction=1,
    grid_origin=0,
    grid_reference=16,
    max_distance=128,
    window=128,
    decoder_layers=6,
    mask_token_id=32,
    masked_share=0.12,
)

TORCH_POST_LN = VASWANI_2017.replace(
    name="torch-post-ln",
    source="torch.nn.TransformerEncoder with its defaults",
    input="given",
    projections="affine",
    output="affine",
    eps=1e-5,
)

TORCH_PRE_LN = TORCH_POST_LN.replace(
    name="torch-pre-ln",
    source="torch.nn.TransformerEncoder with norm_first=True and a final norm",
    layer="pre-ln",
    final_norm="norm",
)

PRE_LN = VASWANI_2017.replace(
    name="pre-ln",
    source="Xiong et al. 2020, table 1",
    layer="pre-ln",
    final_norm="norm",
)

ANNOTATED_TRANSFORMER = VASWANI_2017.replace(
    name="annotated-transformer",
    source="Rush 2018, The Annotated Transformer",
    projections="affine",
    output="affine",
    norm="unbiased-std-plus-eps",
    layer="pre-ln",
    final_norm="norm",
)

DEEPNET = VASWANI_2017.replace(
    name="deepnet",
    source="Wang et al. 2022a, figure 2 and §4.1, an encoder alone; biases and ε as released",
    residual="deepnorm",
    projections="affine",
    output="affine",
    eps=1e-5,
)

BERT = VASWANI_2017.replace(
    name="bert",
    source="Devlin et al. 2018, §3; ε and activation as released",
    segment="added",
    embedding_norm="norm",
    embedding_scale="none",
    position="learned",
    projections="affine",
    output="affine",
    activation="gelu",
    eps=1e-12,
).sized(d_model=768, h=12, d_ff=3072, N=12, V=30522, max_len=512, segments=2)

ROBERTA = BERT.replace(
    name="roberta",
    source="Liu et al. 2019; ε and position offset as released",
    position="learned-offset",
    eps=1e-5,
    position_offset=2,
).sized(V=50265, max_len=514, segments=1)

ROFORMER = BERT.replace(
    name="roformer",
    source="Su et al. 2021, §3.4 and §4.2; as released",
    position="in-attention",
    rotation="pairs",
).sized(V=50000, max_len=1536)

ESM_2 = PRE_LN.replace(
    name="esm2",
    source="Lin et al. 2022 (ESM-2); biases, ε, masked tokens and sizes as released (650M)",
    embedding_scale="token-dropout",
    position="in-attention",
    projections="affine",
    output="affine",
    rotation="halves",
    activation="gelu",
    eps=1e-5,
).sized(V=33, N=33, d_model=1280, h=20, d_ff=5120, max_len=1026)

NOMIC_BERT = BERT.replace(
    name="nomic-bert",
    source="Nussbaum et al. 2024, §3.1; base θ and segments as released",
    position="in-attention",
    rotation="halves",
    rotary_base=1000,
    projections="linear",
    output="linear",
    ffn="gated",
    activation="silu",
).sized(V=30528, max_len=2048)

MOSAIC_BERT = BERT.replace(
    name="mosaic-bert",
    source="Portes et al. 2023, §2.1; segments, biases and ε as released",
    position="in-attention",
    bias="alibi",
    ffn="gated-output-bias",
).sized(V=30528)

MODERNBERT = PRE_LN.replace(
    name="modernbert",
    source="Warner et al. 2024, §2.1; first norm, order of layers and base θ as released",
    embedding_norm="norm",
    embedding_scale="none",
    position="in-attention",
    rotation="halves",
    rotary_base=(160000, 10000, 10000),
    reach=("global", "local", "local"),
    **{"layers.0": "pre-ln-bare"},
    norm="layer-norm-without-bias",
    ffn="gated",
    activation="gelu",
    eps=1e-5,
).sized(d_model=768, h=12, d_ff=1152, N=22, V=50368)

EUROBERT = PRE_LN.replace(
    name="eurobert",
    source="Boizard et al. 2025, §2.1; base θ, ε and sizes as released (610m)",
    embedding_scale="none",
    position="in-attention",
    multihead="grouped-query",
    rotation="halves",
    rotary_base=250000,
    norm="rms",
    ffn="gated",
    activation="silu",
    eps=1e-5,
).sized(d_model=1152, h=18, g=6, d_ff=4096, N=26, V=128256)

EMBEDDING_GEMMA = PRE_LN.replace(
    name="embedding-gemma",
    source="Vera et al. 2025, §2.1; window, order of layers, base θ, ε and sizes as released (300m)",
    position="in-attention",
    layer="sandwich-ln",
    multihead="grouped-query",
    attention="normed",
    rotation="halves",
    rotary_base=(10000, 10000, 10000, 10000, 10000, 1000000),
    reach=("local", "local", "local", "local", "local", "global"),
    window=512,
    norm="rms",
    ffn="gated",
    activation="gelu-tanh",
).sized(d_model=768, h=3, g=1, d_k=256, d_v=256, d_ff=1152, N=24, V=262144)

JINA_V3 = ROBERTA.replace(
    name="jina-v3",
    source="Sturua et al. 2024, §3; base θ as released",
    position="in-attention",
    position_offset=0,
    rotation="halves",
    rotary_base=20000,
).sized(d_model=1024, h=16, d_ff=4096, N=24, V=250002)

DISTILBERT = BERT.replace(
    name="distilbert",
    source="Sanh et al. 2019, §3; ε as released",
    segment="none",
).sized(N=6)

ELECTRA = BERT.replace(
    name="electra",
    source="Clark et al. 2020, §3.1 and appendix A (small); as released",
    input="factorised",
).sized(d_e=128, d_model=256, h=4, d_ff=1024)

MPNET = ROBERTA.replace(
    name="mpnet",
    source="Song et al. 2020, §2.3; relative positions, ε and offset as released",
    segment="none",
    bias="bucketed",
    sharing="bias",
    eps=1e-12,
).sized(V=30527)

DEBERTA_V3 = BERT.replace(
    name="deberta-v3",
    source="He et al. 2020, §3; rows, shared maps, norm of the table and ε as released (v3)",
    segment="none",
    position="in-attention",
    scores="disentangled",
    sharing="bias",
    max_distance=512,
    eps=1e-7,
).sized(V=128100, buckets=512)

T5_ENCODER = PRE_LN.replace(
    name="t5-encoder",
    source="Raffel et al. 2020, §2.1; norms as released",
    embedding_scale="none",
    position="in-attention",
    scores="unscaled",
    bias="bucketed",
    sharing="bias",
    norm="rms",
    ffn="linear",
    eps=1e-6,
).sized(d_model=768, h=12, d_ff=3072, N=12, V=32128)

ALBERT = BERT.replace(
    name="albert",
    source="Lan et al. 2019, §3.1; activation as released",
    input="factorised",
    sharing="all",
    activation="gelu-tanh",
).sized(V=30000, d_e=128)

VIT = VASWANI_2017.replace(
    name="vit",
    source="Dosovitskiy et al. 2020, eq. (1)–(4)",
    embedding="patches",
    embedding_scale="none",
    cls="cls",
    position="learned",
    layer="pre-ln",
    projections="affine",
    output="affine",
    activation="gelu",
    final_norm="norm",
).sized(d_model=768, h=12, d_ff=3072, N=12, patch=16, channels=3, max_len=197)

DEIT = VIT.replace(
    name="deit",
    source="Touvron et al. 2020, §4; ε as released",
    cls="cls-and-distillation",
).sized(max_len=198)

BEIT = VIT.replace(
    name="beit",
    source="Bao et al. 2021, §2.2 and appendix; tables, scaled sublayers and ε as released (fine-tuned)",
    position="in-attention",
    bias="by-grid",
    projections="affine-but-keys",
    residual="scaled",
    final_norm="none",
    eps=1e-12,
).sized(buckets=732)

DINOV2 = VIT.replace(
    name="dinov2",
    source="Oquab et al. 2023, §4; scaled sublayers as released",
    residual="scaled",
).sized(patch=14, max_len=1370)

DINOV2_REGISTERS = DINOV2.replace(
    name="dinov2-registers",
    source="Darcet et al. 2023, §2.2; Oquab et al. 2023, §4",
    registers="registers",
).sized(r=4)

DINOV3 = DINOV2_REGISTERS.replace(
    name="dinov3",
    source="Siméoni et al. 2025, §3.2; biases, ε and base θ as released (ViT-B/16)",
    position="in-attention",
    projections="affine-but-keys",
    rotation="halves",
    angles="axial",
    coordinates="centred",
    rotary_base=100,
    eps=1e-5,
).sized(patch=16)

EVA_02 = VIT.replace(
    name="eva-02",
    source="Fang et al. 2023, §2.1; as released (Ti and S), which norm nothing within the sublayers",
    projections="affine-but-keys",
    rotation="pairs",
    angles="axial",
    coordinates="stretched",
    ffn="gated-affine",
    activation="silu",
).sized(d_model=192, h=3, d_ff=512, patch=14, max_len=257)

VIT_22B = VIT.replace(
    name="vit-22b",
    source="Dehghani et al. 2023, §2; biases of the output maps as in Dosovitskiy et al. 2020",
    cls="none",
    layer="parallel",
    attention="normed",
    norm="rms",
    projections="linear",
).sized(d_model=6144, h=48, d_ff=24576, N=48, patch=14, max_len=256)

CLIP_VISION = VIT.replace(
    name="clip-vision",
    source="Radford et al. 2021, §2.4; activation, norm of the embeddings and ε as released",
    embedding="patches-without-bias",
    embedding_norm="norm",
    activation="quick-gelu",
    final_norm="none",
    eps=1e-5,
).sized(patch=32, max_len=50)

CLIP_TEXT = PRE_LN.replace(
    name="clip-text",
    source="Radford et al. 2021, §2.4; activation and ε as released",
    embedding_scale="none",
    position="learned",
    projections="affine",
    output="affine",
    reach="causal",
    activation="quick-gelu",
    eps=1e-5,
).sized(d_model=512, h=8, d_ff=2048, N=12, V=49408, max_len=77)

SIGLIP = VIT.replace(
    name="siglip",
    source="Zhai et al. 2023, §4; activation and ε as released",
    cls="none",
    activation="gelu-tanh",
).sized(max_len=196)

WHISPER = PRE_LN.replace(
    name="whisper",
    source="Radford et al. 2022, §2.2; biases and sinusoids as released",
    embedding="convolutions",
    embedding_scale="none",
    position="sinusoidal-tensor2tensor",
    projections="affine-but-keys",
    output="affine",
    activation="gelu",
    eps=1e-5,
).sized(channels=80, max_len=1500)

WAV2VEC2 = TORCH_POST_LN.replace(
    name="wav2vec2",
    source="Baevski et al. 2020, §2 and §4.1 (base); norms of the stages, the features and the sum as released",
    input="embedded",
    embedding="waveform",
    **{"stages.0": "convolution-norm-over-time"},
    feature_norm="norm",
    embedding_scale="none",
    position="convolution",
    embedding_norm="norm",
    activation="gelu",
).sized(d_model=768, h=12, d_ff=3072, N=12, channels=512, kernel=128, d_group=48)

HUBERT = TORCH_PRE_LN.replace(
    name="hubert",
    source="Hsu et al. 2021, §III and table I (large); norms of the stages and of the layers as released",
    input="embedded",
    embedding="waveform",
    stage="convolution-norm",
    feature_norm="norm",
    embedding_scale="none",
    position="convolution",
    activation="gelu",
).sized(d_model=1024, h=16, d_ff=4096, N=24, channels=512, kernel=128, d_group=64)

DATA2VEC_AUDIO = TORCH_POST_LN.replace(
    name="data2vec-audio",
    source="Baevski et al. 2022, §4 (sounds, base); stages and convolutions of positions as released",
    input="embedded",
    embedding="waveform",
    stage="convolution-norm",
    feature_norm="norm",
    embedding_scale="none",
    position="convolutions",
    embedding_norm="norm",
    activation="gelu",
).sized(d_model=768, h=12, d_ff=3072, N=12, channels=512, convolutions=5, kernel=19, d_group=48)

UNIVERSAL = VASWANI_2017.replace(
    name="universal",
    source="Dehghani et al. 2018, §2.1, without its position-in-time signal and halting",
    sharing="all",
)

PROFILES = {
    p.name: p
    for p in (
        VASWANI_2017,
        ANNOTATED_TRANSFORMER,
        BERT,
        ROBERTA,
        ROFORMER,
        NOMIC_BERT,
        MOSAIC_BERT,
        MODERNBERT,
        EUROBERT,
        EMBEDDING_GEMMA,
        JINA_V3,
        MPNET,
        DEBERTA_V3,
        T5_ENCODER,
        ESM_2,
        DISTILBERT,
        ELECTRA,
        ALBERT,
        VIT,
        DEIT,
        BEIT,
        DINOV2,
        DINOV2_REGISTERS,
        DINOV3,
        EVA_02,
        VIT_22B,
        CLIP_VISION,
        CLIP_TEXT,
        SIGLIP,
        WHISPER,
        WAV2VEC2,
        HUBERT,
        DATA2VEC_AUDIO,
        PRE_LN,
        TORCH_POST_LN,
        TORCH_PRE_LN,
        DEEPNET,
        UNIVERSAL,
    )
}


def profile(name: str) -> Profile:
    """Return the published profile of this name, or the one that a ``.toml`` file describes.

    A file names its ``base`` (by default ``vaswani-2017``) and the slots and
    constants in which it differs.

    Raises:
        SpecificationError: if there is no such profile, or the file does not describe one.
    """
    if not name.endswith(".toml"):
        if name not in PROFILES:
            raise SpecificationError(f"there is no profile {name!r}: choose among {', '.join(PROFILES)}")
        return PROFILES[name]
    try:
        choices = tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as problem:
        raise SpecificationError(f"profile file {name} cannot be read: {problem.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise SpecificationError(f"profile file {name}: {problem}") from None
    for table in [key for key, value in choices.items() if isinstance(value, dict)]:
        choices |= {f"{table}.{key}": value for key, value in choices.pop(table).items()}
    base = PROFILES.get(str(choices.pop("base", "vaswani-2017")))
    if base is None:
        raise SpecificationError(f"profile file {name}: base must be one of {', '.join(PROFILES)}")
    for key in {"name", "source"} & set(choices):
        demand(isinstance(choices[key], str), f"profile file {name}: {key} must be a text, but is {choices[key]!r}")
    try:
        return base.replace(**({"name": Path(name).stem, "source": name} | choices))
    except SpecificationError as problem:
        raise SpecificationError(f"profile file {name}: {problem}") from None
