"""The letters of the specification, defined once.

Code, documentation and messages all take their symbols from ``SYMBOLS``. The
key is the identifier that the code uses; ``word`` is the name under which
reports and profile files write a constant.
"""

from dataclasses import dataclass


class SpecificationError(ValueError):
    """An input or a choice for which the specification defines no answer."""


def demand(condition: bool, message: str) -> None:
    """Refuse what an equation's side conditions exclude.

    Raises:
        SpecificationError: with ``message`` when ``condition`` is false.
    """
    if not condition:
        raise SpecificationError(message)


@dataclass(frozen=True)
class Symbol:
    """One letter: how it is typeset, what it means, its word in reports."""

    latex: str
    meaning: str
    word: str = ""
    factors: tuple[str, ...] = ()


SYMBOLS: dict[str, Symbol] = {
    # Axes of the data
    "B": Symbol("B", "batch size"),
    "n": Symbol("n", "sequence length"),
    # Dimensions of the encoder
    "d_model": Symbol(r"d_\text{model}", "width of the hidden states", "d_model"),
    "d_e": Symbol("d_e", "width of the embeddings, where a map leads from it to d_model", "embedding_size"),
    "h": Symbol("h", "number of heads", "num_heads"),
    "g": Symbol(
        "g", "number of heads of keys and values, where several queries' heads share one", "num_key_value_heads"
    ),
    "d_k": Symbol("d_k", "width of a query and of a key in one head", "d_k"),
    "d_v": Symbol("d_v", "width of a value in one head", "d_v"),
    "d_ff": Symbol(r"d_\text{ff}", "inner width of the feed-forward network", "d_ff"),
    "N": Symbol("N", "number of layers", "num_layers"),
    "V": Symbol("|V|", "vocabulary size", "vocab_size"),
    "buckets": Symbol("n_b", "rows of a table of relative positions", "relative_buckets"),
    "max_len": Symbol(r"n_\text{max}", "rows of a learned position table", "max_len"),
    "r": Symbol("r", "number of registers", "num_registers"),
    "kernel": Symbol("K", "positions that a convolution of positions reads", "position_kernel"),
    "d_group": Symbol("d_c", "features of one group of a convolution of positions", "group_width"),
    "convolutions": Symbol("J", "convolutions of positions, one behind the other", "position_convolutions"),
    "segments": Symbol("n_s", "number of segment types", "num_segments"),
    "channels": Symbol("C", "channels of an image or of a signal, features of a moment", "channels"),
    "taps": Symbol("k", "times that a stage reads for each one that it gives", "stage_width"),
    "stride": Symbol("s", "times by which a stage moves from one that it gives to the next", "stage_stride"),
    "heard": Symbol(
        "C'", "channels that a stage reads: those of the stage before, and 1 in the first", "stage_channels"
    ),
    "classes": Symbol("c", "number of classes of a head", "num_classes"),
    "patch": Symbol("p", "height of a patch", "patch_size"),
    "patch_width": Symbol("q", "width of a patch, which is p in a square one", "patch_width"),
    "rows": Symbol("n_y", "rows of patches of an image", "grid_rows"),
    "columns": Symbol("n_x", "columns of patches of an image", "grid_columns"),
    # Products of dimensions that are one axis of an array
    "hd_k": Symbol("h d_k", "all heads' queries (or keys) side by side", factors=("h", "d_k")),
    "hd_v": Symbol("h d_v", "all heads' values side by side", factors=("h", "d_v")),
    "gd_k": Symbol("g d_k", "all heads' keys side by side", factors=("g", "d_k")),
    "gd_v": Symbol("g d_v", "all heads' values side by side", factors=("g", "d_v")),
    "patch_area": Symbol("p q C", "entries of a flattened patch", factors=("patch", "patch_width", "channels")),
    # Constants
    "eps": Symbol(r"\epsilon", "stability constant of the norm", "eps"),
    "P_drop": Symbol(r"P_\text{drop}", "dropout probability", "p_drop"),
    "offset": Symbol("o", "position from which a sequence is counted", "position_offset"),
    "theta": Symbol(r"\theta", "base of the wavelengths of rotary positions", "rotary_base"),
    "farthest": Symbol(r"\Delta", "distance from which on relative positions share a row", "max_distance"),
    "window": Symbol("w", "width of a window, of which half lies to either side", "window"),
    "fraction": Symbol(r"\varrho", "share of a head's features that rotary positions turn", "rotary_fraction"),
    "origin": Symbol("o_g", "number from which rows and columns of patches are counted", "grid_origin"),
    "M": Symbol("M", "number of layers of the decoder that reads the encoder's output", "decoder_layers"),
    "mask_id": Symbol("t_m", "id that stands for a masked token", "mask_token_id"),
    "p_mask": Symbol("p_m", "share of the tokens that are masked in training", "masked_share"),
    "reference": Symbol("G", "patches on a side of the image to which coordinates are stretched", "grid_reference"),
}
