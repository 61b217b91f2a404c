"""Profiles: published choices of one equation per slot.

``VASWANI_2017`` fills every slot; each other profile is another one with some
slots replaced. The names on the right are those of the variants, as reports and
profile files write them; ``encoder-spec profiles NAME`` shows a choice in full.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Self

from encoder_spec.equation import Equation, places, slots, variants
from encoder_spec.notation import SYMBOLS, SpecificationError, demand

CONSTANTS = {SYMBOLS[name].word: name for name in ("eps", "P_drop", "offset", "theta", "fraction")}


@dataclass(frozen=True)
class Profile:
    """One equation for each slot, the constants, and where the choice was published.

    ``sizes`` has those of the base model that was published with it, by letter; none where they are those of Vaswani et
    al., or where nothing of that kind was published.
    """

    name: str
    source: str
    equations: Mapping[str, Equation]
    constants: Mapping[str, float]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, slot: str) -> Equation:
        return self.equations[slot]

    def replace(self, *, name: str = "", source: str = "", **choices: Any) -> Self:
        """Return this choice with other slots and constants where they are given.

        A slot, or one place of a slot such as ``norm_final``, takes the name of a variant,
        an equation, or any function with the arguments of that slot's equations. Constants are ``eps``, ``p_drop`` and
        ``position_offset``, or one of them for one place: ``norm_final.eps``.

        Raises:
            SpecificationError: for an unknown slot, variant or constant.
        """
        filled, constants = dict(self.equations), dict(self.constants)
        for key, choice in choices.items():
            place, _, word = key.rpartition(".")
            if word in CONSTANTS:
                constants[f"{place}.{CONSTANTS[word]}".lstrip(".")] = number(word, choice)
            else:
                filled[key] = fill(key, choice)
        return type(self)(name or self.name, source or self.source, filled, constants, self.sizes)

    def sized(self, **sizes: int) -> Self:
        """Return this choice with the sizes of its base model, by letter."""
        return replace(self, sizes={**self.sizes, **sizes})

    def choices(self) -> dict[str, str | float]:
        """Return the variant in every slot and every constant, by name."""
        chosen: dict[str, str | float] = {slot: e.variant for slot, e in self.equations.items()}
        return chosen | {constant_word(key): value for key, value in self.constants.items()}

    def slot_at(self, path: str) -> str:
        """Return the slot that fills the place at a path: the place itself where it has a separate equation."""
        place = path.rpartition(".")[2]
        return place if place in self.equations else place.partition("_")[0]

    def constant(self, name: str, path: str) -> float:
        """Return the constant that an equation at ``path`` reads: that of its place, if the place has one."""
        place = path.rpartition(".")[2]
        return self.constants.get(f"{place}.{name}", self.constants[name])


def is_layer(key: str) -> bool:
    """Return whether a choice is that of one layer, such as ``layers.0``."""
    stack, _, number = key.partition(".")
    return stack == "layers" and number.isdigit()


def constant_word(key: str) -> str:
    """Return the name under which reports and profile files write a constant."""
    place, _, letter = key.rpartition(".")
    return f"{place}.{SYMBOLS[letter].word}".lstrip(".")


def number(name: str, value: Any) -> float:
    """Return a constant as given by a person: a non-negative number, else a SpecificationError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise SpecificationError(f"{name} must be a non-negative number, but is {value!r}")
    return int(value) if name == "position_offset" else float(value)


def fill(slot: str, choice: str | Equation | Callable[..., Any]) -> Equation:
    """Return the equation that ``choice`` means in ``slot``.

    Raises:
        SpecificationError: for a slot or variant that does not exist.
    """
    place = slot
    slot = "layer" if is_layer(place) else place.partition("_")[0] if place in places() else place
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
    feature_norm="none",
    token_norm="none",
    token_activation="none",
    embedding_scale="sqrt-d-model",
    cls="none",
    position="sinusoidal",
    segment="none",
    embedding_norm="none",
    layer="post-ln",
    sharing="none",
    multihead="self-attention",
    projections="linear",
    split="heads",
    attention="dot-product",
    rotation="none",
    angles="geometric",
    scores="scaled",
    bias="none",
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
    eps=1e-6,
    p_drop=0.1,
    position_offset=0,
    rotary_base=10000,
    rotary_fraction=1,
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
        ALBERT,
        VIT,
        DEIT,
        WHISPER,
        PRE_LN,
        TORCH_POST_LN,
        TORCH_PRE_LN,
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
