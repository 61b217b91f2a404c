"""Facts that the parameters alone show of an encoder: its sizes, and the variant of every slot that has parameters."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial, wraps
from itertools import product
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from conformance_tests.computation.constants import WITH_CONSTANT
from conformance_tests.computation.shown import EncoderReading, Kept
from conformance_tests.errors import Undetermined
from conformance_tests.harness.computed import ENTRANCES
from conformance_tests.identification.epsilon import EPSILONS, OUTER_NORMS
from conformance_tests.subjects.hints import Hints
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import Equation, variants
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import CONSTANTS, VASWANI_2017, Profile, several

NEEDED = {
    "attention projections": {"W_Q", "W_K", "W_V"},
    "output projections": {"W_O"},
    "feed-forward maps": {"W_1", "W_2"},
}
"""The maps without which there is no encoder."""

SHOWN_BY_PARAMETERS = (
    "embedding",
    "cls",
    "position",
    "segment",
    "registers",
    "projections",
    "output",
    "norm",
    "ffn",
    "bias",
    "residual",
    "head",
)
"""The slots whose variants differ in their parameters."""

ADDED = ENTRANCES | {"P", "W_pos", "W_around", "E_seg", "x_cls", "x_dist", "X_reg"}
"""The parameters of an encoder that makes its input itself, of whatever it is given."""


def structure(parameters: Mapping[str, Tensor], hints: Hints) -> Encoder:
    """Return the encoder that the parameters alone determine.

    Open slots are as hinted, as is customary, or as in Vaswani 2017. A norm behind the last layer goes with Pre-LN,
    and a norm that only scales is RMSNorm, unless calls show that it is otherwise.

    Raises:
        SpecificationError: if the shapes are those of no encoder.
    """
    letters = {path.rpartition(".")[2] for path in parameters}
    of_first = {path.rpartition(".")[2] for path in parameters if path.startswith("layers.0.")}
    layers = {path.split(".")[1] for path in parameters if path.startswith("layers.")}
    for part, needed in NEEDED.items():
        if not needed <= of_first:
            absent = ", ".join(sorted(needed - of_first))
            raise SpecificationError(f"there are no {part} among the parameters ({absent})")
    choices: dict[str, Any] = {
        slot: fitting[0] for slot in SHOWN_BY_PARAMETERS if (fitting := admissible(slot, letters))
    }
    entrances = ENTRANCES & letters
    if entrances and not variants("embedding")[choices["embedding"]].parameters:
        raise SpecificationError(f"no embedding has {', '.join(sorted(entrances))} alone")
    of_layers = {path.rpartition(".")[2] for path in parameters if ".norm_1." in path}
    for place in OUTER_NORMS:
        here = {path.rpartition(".")[2] for path in parameters if path.startswith(f"{place}.")}
        if here and of_layers and here != of_layers:
            choices[place] = norms_with(here)[0]
    if not of_layers:
        single = any(".norm_2." in path for path in parameters)
        raise SpecificationError(
            "by their names each of its layers has a norm of the feed-forward network and none of the attention"
            if single
            else "there are no norms of the layers among the parameters"
        )
    fitting = norms_with(of_layers)
    choices["norm"] = "rms" if "rms" in fitting else fitting[0]
    if any(path.startswith("layers.0.norm_q.") for path in parameters):
        choices["attention"] = norms_of_queries(parameters, hints)
    choices |= stages_by_parameters(parameters)
    choices["input"] = "given"
    if ADDED & letters or "embedding" in hints.stated:
        choices["input"] = "factorised" if "W_e" in letters else "embedded"
    for place, slot in OUTER_NORMS.items():
        choices[slot] = "norm" if f"{place}.gamma" in parameters else "none"
    choices["layer"] = layer_by_norms(parameters, is_ended=choices["final_norm"] == "norm")
    if "layers.0.norm_1.gamma" not in parameters and "layers.1.norm_1.gamma" in parameters:
        choices |= {"layer": "pre-ln", "layers.0": "pre-ln-bare"}
    shared = is_shared(parameters, layers)
    N = hints.sizes.get("N", len(layers)) if shared else len(layers)
    if "D" in of_first:
        choices["scores"] = "disentangled" if "layers.0.norm_D.gamma" in parameters else "relative-keys"
    tables = [parameters[path] for l, letter in product(layers, "RD") if (path := f"layers.{l}.{letter}") in parameters]
    has_one_table = 0 < len(tables) < len(layers) or len({in_memory(table) for table in tables}) < len(tables)
    choices["sharing"] = "all" if N > 1 and shared else "bias" if has_one_table else "none"
    if choices.get("embedding", "lookup") != "lookup" or choices["segment"] == "added":
        choices["embedding_scale"] = "none"
    stated = {
        k: v
        for k, v in hints.choices.items()
        if k.rpartition(".")[2] in CONSTANTS or set(several(k, v)) <= set(admissible(k, letters))
    }
    keys, queries = (parameters[f"layers.0.{letter}"].shape[1] for letter in ("W_K", "W_Q"))
    if keys < queries:
        choices["multihead"] = "grouped-query"
    encoder = Encoder(VASWANI_2017.replace(**({"eps": EPSILONS[0]} | choices | stated)), sizes(parameters, hints, N))
    sharing_heads = heads_sharing_maps(parameters)
    for path, shape in encoder.parameter_shapes().items():
        got = tuple(parameters[path].shape) if path in parameters else shape
        is_shared_by_heads = sharing_heads and path.rpartition(".")[2][2:] in ("Q", "K", "V")
        if got != shape and not is_shared_by_heads:
            raise SpecificationError(f"{path} has shape {got}, but beside the other parameters it must be {shape}")
    return encoder


def norms_of_queries(parameters: Mapping[str, Tensor], hints: Hints) -> str:
    """Return the variant of attention in which queries are normed: by each head, over the features of all, or of one.

    The features of a single head are those of all: then the norm is that of a head.
    """
    if "layers.0.gamma_q" in parameters:
        return "normed-by-head"
    gamma = parameters.get("layers.0.norm_q.gamma")
    if gamma is None or 1 in (hints.sizes.get("h"), hints.heads) or heads_sharing_maps(parameters):
        return "normed"
    return "normed-across-heads" if len(gamma) == parameters["layers.0.W_Q"].shape[1] else "normed"


def stages_by_parameters(parameters: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the variants of the stages that samples pass, as far as their parameters tell, where there are any."""
    count = number_of_stages(parameters)
    if not count:
        return {}
    held = [{path.split(".")[-1] for path in parameters if path.startswith(f"stages.{l}.")} for l in range(count)]
    kinds = ["convolution-norm" if "gamma" in letters else admissible("stage", letters)[0] for letters in held]
    others = {f"stages.{l}": kind for l, kind in enumerate(kinds) if kind != kinds[-1]}
    return {"embedding": "waveform", "stage": kinds[-1]} | others


def number_of_stages(parameters: Iterable[str]) -> int:
    """Return how many stages samples pass, by the paths of parameters."""
    return len({path.split(".")[1] for path in parameters if path.startswith("stages.")})


def as_declared(declared: Profile, parameters: Mapping[str, Tensor], hints: Hints) -> Encoder:
    """Return the declared profile in the sizes that the parameters show, whatever of it they lack.

    Raises:
        SpecificationError: if they lack too much to show the sizes.
    """
    if not {f"layers.0.{letter}" for letter in ("W_Q", "W_V", "W_1")} <= parameters.keys():
        raise SpecificationError("the parameters do not tell d_model, d_k, d_v and d_ff")
    layers = {path.split(".")[1] for path in parameters if path.startswith("layers.")}
    given = {"input": "given"} if declared["embedding"].parameters and not ENTRANCES & parameters.keys() else {}
    return Encoder(declared.replace(**given), sizes(parameters, hints, len(layers)))


def as_shown(shown: EncoderReading) -> Encoder:
    """Return the encoder that a computation shows.

    Raises:
        Undetermined: if its parts fit no encoder together.
    """
    as_they_are = {slot: as_kept(slot, str(shown.choices[slot]), number) for slot, number in shown.kept.items()}
    choices: dict[str, Any] = shown.choices | as_they_are
    try:
        sizes: dict[str, Any] = dict(shown.sizes)
        if shown.stages is not None:
            sizes |= dict(zip(("widths", "strides"), shown.stages, strict=True))
        encoder = Encoder(VASWANI_2017.replace(**choices), Dimensions(**sizes))
        shapes = encoder.parameter_shapes()
    except SpecificationError as reason:
        raise Undetermined(str(reason)) from None
    found = shown.codes.shapes() | {path: tuple(numbers.shape) for path, numbers in shown.numbers.items()}
    for path, shape in shapes.items():
        if found.get(path, shape) != shape:
            raise Undetermined(f"{path} has shape {found[path]}, but beside the other parameters it must be {shape}")
    return encoder


def as_kept(slot: str, variant: str, number: Kept) -> Equation | list[Equation]:
    """Return a variant of a slot with its constant as an encoder keeps it, such as √d in float32; or one a layer."""
    if isinstance(number, list):
        return [each for one in number if isinstance(each := as_kept(slot, variant, one), Equation)]
    published = variants(slot)[variant]
    function = partial(WITH_CONSTANT[variant].function, number)
    return replace(published, function=wraps(published.function)(function))


def admissible(slot: str, letters: set[str]) -> list[str]:
    """Return the variants of a slot whose parameters are all there, and only those that use most of them."""
    fits = {name: len(e.parameters) for name, e in variants(slot).items() if set(e.parameters) <= letters}
    most = max(fits.values(), default=0)
    return [name for name, used in fits.items() if used == most]


def norms_with(letters: set[str]) -> list[str]:
    """Return the variants of a norm whose parameters are there.

    Raises:
        SpecificationError: if there are none.
    """
    fitting = admissible("norm", letters)
    if not fitting:
        raise SpecificationError(f"no norm has {', '.join(sorted(letters))} alone")
    return fitting


def layer_by_norms(parameters: Mapping[str, Tensor], *, is_ended: bool) -> str:
    """Return the variant of the layer that goes with its norms.

    Args:
        parameters: of the encoder.
        is_ended: whether a norm stands behind the last layer.
    """
    norms = {path.split(".")[2] for path in parameters if path.startswith("layers.") and ".norm_" in path}
    if "norm_attention" in norms:
        return "sandwich-ln"
    if "norm_2" not in norms:
        return "parallel"
    return "pre-ln" if is_ended else "post-ln"


def is_shared(parameters: Mapping[str, Tensor], layers: set[str]) -> bool:
    """Return whether all layers use one set of arrays: a single set, or the same memory in each and nothing else."""
    paths = [f"layers.{l}.W_1" for l in layers]
    if len({in_memory(parameters[path]) if path in parameters else None for path in paths}) > 1:
        return False
    of_first = {path.split(".", 2)[2]: array for path, array in parameters.items() if path.startswith("layers.0.")}
    others = [(f"layers.{l}.{name}", array) for l in layers for name, array in of_first.items()]
    return all(array.is_meta or torch.equal(parameters.get(path, array), array) for path, array in others)


def in_memory(w: Tensor) -> Hashable:
    """Return a key of where an array is kept: its storage and its place there, as one on meta has no address."""
    return w.untyped_storage()._cdata, w.storage_offset()


def heads_sharing_maps(parameters: Mapping[str, Tensor]) -> int:
    """Return how many heads share one d_k × d_k map each for queries, keys and values; 0 if they have separate maps."""
    shapes = {parameters[path].shape for l in "QKV" if (path := f"layers.0.W_{l}") in parameters}
    (rows, columns), width = next(iter(shapes)), len(parameters["layers.0.W_1"])
    return width // rows if len(shapes) == 1 and rows == columns < width and width % rows == 0 else 0


def sizes(parameters: Mapping[str, Tensor], hints: Hints, N: int) -> Dimensions:
    """Return the sizes that the shapes of the parameters show."""
    found = {"N": N}
    for path, axes in {
        "layers.0.W_Q": ("d_model", "hd_k"),
        "layers.0.W_K": ("d_model", "gd_k"),
        "layers.0.W_V": ("d_model", "gd_v"),
        "layers.0.R": ("buckets", "h"),
        "layers.0.D": ("buckets", "of_distances"),
        "layers.0.W_1": ("d_model", "d_ff"),
        "E": ("V", "d_e"),
        "P": ("max_len", "d_e"),
        "E_seg": ("segments", "d_e"),
        "X_reg": ("r", "d_e"),
        "W_pos": ("kernel", "d_group", "d_e"),
        "W_around": ("convolutions", "kernel", "d_group", "d_e"),
        "W_conv": ("3", "channels", "d_model"),
        "W_feature": ("channels", "d_e"),
        "W_cls": ("d_model", "classes"),
    }.items():
        if path in parameters:
            shape = tuple(parameters[path].shape)
            if len(shape) != len(axes):
                raise SpecificationError(f"{path} is an array {shape}, where one with {len(axes)} axes belongs")
            here = dict(zip(axes, shape, strict=True))
            if here.get("d_e") not in (None, found.get("d_e", here.get("d_e"))):
                raise SpecificationError(
                    f"the input has width {found['d_e']}, but {path} has width {here['d_e']}: no slot has such a table"
                )
            found |= here
    of_distances = found.pop("of_distances", 0)
    if found.pop("3", 3) != 3:
        raise SpecificationError("the convolutions of the input are not of width 3")
    if "W_e" not in parameters and found.get("d_e", found["d_model"]) != found["d_model"]:
        raise SpecificationError(f"the input has width {found['d_e']}, but the layers {found['d_model']}")
    hd_k, gd_k, gd_v = found.pop("hd_k"), found.pop("gd_k", 0), found.pop("gd_v")
    hd_v = gd_v * hd_k // gd_k if 0 < gd_k < hd_k else gd_v  # heads of queries share keys and values
    if 0 < of_distances < hd_k and "layers.0.norm_D.gamma" not in parameters and hd_k % of_distances == 0:
        found["h"] = hd_k // of_distances  # a key of a distance is as wide as one of a head, a vector as all of them
    if sharing := heads_sharing_maps(parameters):
        hd_k, hd_v = sharing * hd_k, sharing * hd_v
        found["d_model"] = hd_k
        hints = replace(hints, sizes=hints.sizes | {"h": sharing})
    likely = hints.heads if hints.heads and hd_k % hints.heads == hd_v % hints.heads == 0 else 1
    found["h"] = found.get("h", hints.sizes.get("h", likely))
    if 0 < gd_k < hd_k:
        found["g"] = max(1, found["h"] * gd_k // hd_k)
    if hd_k % found["h"]:
        raise SpecificationError(f"{found['h']} heads do not divide the {hd_k} columns of W_Q")
    stated: dict[str, Any] = {k: v for k, v in hints.sizes.items() if k in ("patch", "channels", "classes")}
    if stages := number_of_stages(parameters):
        kernels = [parameters.get(f"stages.{l}.W_stage") for l in range(stages)]
        if len(hints.strides) != stages or not all(w is not None and w.ndim == 3 for w in kernels):
            raise SpecificationError("its parameters leave open by how many times its stages move")
        stated |= {"widths": tuple(len(w) for w in kernels if w is not None), "strides": hints.strides}
    if "W_patch" in parameters:
        entries = len(parameters["W_patch"])
        sides = {entries // c: c for c in (3, 1, 4, 2) if entries % c == 0 and isqrt(entries // c) ** 2 == entries // c}
        area = stated.get("patch", isqrt(next(iter(sides), entries))) ** 2
        stated |= {"patch": isqrt(area), "channels": max(1, entries // area)}
    return Dimensions(**(found | stated | {"d_k": hd_k // found["h"], "d_v": hd_v // found["h"]}))
