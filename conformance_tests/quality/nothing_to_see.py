"""Profiles in which a deviation computes what the specification computes, so that nothing can notice it."""

SHORT = "their images in the probes have no more patches than that"
"""Reason why a defect that begins at some length stays hidden where images have one size."""

CENTRED_IMAGES = "vit deit dinov2 dinov2-registers eva-02 clip-vision siglip"
IMAGES = f"{CENTRED_IMAGES} vit-22b"
"""Profiles of encoders of images with a table of positions: those whose norms subtract the mean, and all of them."""

IN_ATTENTION = (
    "roformer nomic-bert mosaic-bert modernbert eurobert embedding-gemma jina-v3 t5-encoder esm2 deberta-v3 dinov3 beit"
)
"""Profiles in which attention alone tells positions."""

WIDE = "of 257 positions, the longest probe, a window of 512 hides none"
"""Reason why a defect of the window stays hidden where the window is wider than every probe."""

OVER_TIME = "a norm over time reads padding too, so that none of it can be exchanged"
"""Reason why what padding holds cannot show a mask that is too weak."""

NOTHING_TO_SEE = {
    "scores-grow-with-length": (IMAGES, SHORT),
    "attention-within-a-window": (IMAGES, SHORT),
    "keys-in-full-chunks-alone": (IMAGES, SHORT),
    "learned-position-starts-over": (IMAGES, SHORT),
    "segment-of-ones-added": (
        "annotated-transformer modernbert esm2 deberta-v3 clip-text whisper wav2vec2 hubert data2vec-audio pre-ln "
        f"dinov3 {CENTRED_IMAGES}",
        "it moves the mean of each position, which their norms take away",
    ),
    "window-missing": ("embedding-gemma", WIDE),
    "window-to-either-side": ("embedding-gemma", WIDE),
    "mask-small-fill": (
        "t5-encoder wav2vec2",
        f"its norms keep the scores so small that −100 hides keys, or {OVER_TIME}",
    ),
    "mask-subtracts-a-thousand": (
        "mpnet dinov2-registers dinov3 wav2vec2 hubert data2vec-audio",
        f"in what can be compared their scores are so small that −1000 hides keys, or {OVER_TIME}",
    ),
    "norms-of-queries-and-keys-exchanged": (
        "vit-22b",
        "without rotation and β each score has the product of both factors, in whatever order",
    ),
    "norm-variance-in-one-pass": (
        "dinov2 dinov2-registers dinov3 beit clip-vision",
        "what is offset is scaled feature by feature there, or stays offset in the output",
    ),
    "sum-of-embedding-and-position-scaled": (
        f"bert roberta roformer nomic-bert mosaic-bert modernbert eurobert jina-v3 mpnet t5-encoder esm2 "
        f"deberta-v3 distilbert clip-text whisper wav2vec2 hubert data2vec-audio embedding-gemma dinov3 beit {IMAGES}",
        "the scale of the embedding is 1 there, or nothing is added to it",
    ),
    "position-subtracted": (IN_ATTENTION, "nothing is added there"),
    "position-multiplied": (IN_ATTENTION, "nothing is added there"),
    "positions-at-padding-alone": (IN_ATTENTION, "nothing is added there"),
    "position-before-class-token": ("dinov3 beit", "nothing is added there"),
    "ffn-chunks-without-remainder": ("deit siglip vit-22b", "their number of positions leaves no remainder"),
    "first-layer-repeated": ("albert universal", "all layers are one"),
    "layers-reversed": ("albert universal", "all layers are one"),
}
"""Profiles in which a deviation computes what the specification computes, and why."""
