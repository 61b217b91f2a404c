"""What parameters are called: from the names in use to the parts of an encoder.

Families and tutorials name the same dozen parameters in a few dozen ways. A rule is a
pattern for the name inside a layer, or outside of all layers; the first that matches
decides. Adding a family is adding its words to a pattern.
"""

import re
from collections import Counter
from collections.abc import Iterable

KIND = re.compile(r"\.(weight|bias|kernel|scale|gamma|beta|embedding)s?$")
"""The end of a name: which of a part's arrays it is. What stands before says which part."""

ATTENTION = r"att(?:entio)?n|mha|msa|multi_?head|(?:^|\.)sa(?:_|\.|$)"
NORM = r"norm|(?<![a-z])ln(?![a-z])"
FFN = r"(?:^|[._])(?:ffn?|feed_?forward|mlp|net|position_?wise\w*)(?:\.(?:net|layers|model|seq|block))?"
BEFORE = r"(?:^|[._])(?:(?:to|w|fc|lin|linear|proj|dense|project)_?)?"
AFTER = r"(?:_?(?:proj|projection|lin|linear|dense|layer|map|w|net))?(?:\.0)?$"
MAP = r"(?:linear|fc|lin|w|dense|conv|layer|proj|map)_?"


def word(alternatives: str) -> str:
    """A pattern for one of these words, with what families put around it: ``to_q``, ``q_proj``, ``fc_q``."""
    return rf"{BEFORE}(?:{alternatives}){AFTER}"


def norm(alternatives: str) -> str:
    """A pattern for a norm whose name also has one of these words."""
    return rf"(?=.*(?:{NORM}))(?:.*(?:{alternatives}))"


# The order matters: the name of a norm may hold the words of the map beside it.
IN_LAYER = (
    ("norm_2", norm("post_att")),
    ("norm_1", norm(ATTENTION)),
    ("norm_2", norm(r"final|after|(?:^|\.)output[._]|ffn?|mlp|feed_?forward|intermediate|full_layer")),
    ("norm_2", norm(r"(?:norm|ln)_?(?:2|b)(?:$|\.)|(?:sub)?layers?\.1")),
    ("norm_1", norm(r"before|input|(?:norm|ln)_?(?:1|a)(?:$|\.)|(?:sub)?layers?\.0")),
    ("norm_2", rf"^(?:layer_?)?(?:{NORM})$"),
    ("QKV", word("qkv|query_key_value|in_proj|in|c_attn")),
    ("KV", word("kv|key_value")),
    ("Q", word("q|quer(?:y|ies)")),
    ("K", word("k|keys?")),
    ("V", word("v|values?")),
    (
        "O",
        rf"(?=.*(?:{ATTENTION}))(?:.*{word(r'o|out|output|proj|c_proj|dense|unify[a-z]*|merge|concat|final|fc|linear')})",
    ),
    ("O", r"(?:^|[._])(?:w_?o|o_proj|out_proj|to_out|out_lin|fc_o)(?:\.0)?$"),
    ("G", r"(?:^|[._])(?:gate|gate_proj|wi_1|linear_v|w_?g)$"),
    ("1", rf"{MAP}(?:1|in)$|intermediate\.dense$|(?:^|[._])(?:c_fc|wi|wi_0|up|up_proj|expand|inner|hidden)$"),
    ("1", rf"{FFN}(?:\.0(?:\.proj)?)?$"),
    ("2", rf"{MAP}(?:2|out)$|(?:^|[._])(?:output\.dense|c_proj|wo|down|down_proj|contract|ffn_output|outer)$"),
    ("2", rf"{FFN}\.[2345]$"),
)

OUTSIDE = (
    ("norm_final", norm("emb_layer_norm_after")),
    ("norm_embedding", norm("emb|pre_?layer|input_norm")),
    (
        "norm_final",
        rf"^(?:(?:encoder|vision_model|model|transformer|stack)\.)*(?:layer_?|post_?|final_?|last_?)*(?:{NORM})"
        r"(?:_?(?:f|final|post|after|out))?$",
    ),
    ("E_seg", r"(?:token_type|segment|seg)\w*$"),
    ("x_cls", r"(?:cls|class)_?(?:token|embedding|emb)$"),
    ("patch", r"patch\w*(?:\.(?:proj|projection|conv\w*))?$|^conv_proj$"),
    ("P", r"(?:^|[._])(?:w?pe|\w*pos(?:ition)?s?(?:al)?(?:_?(?:emb|enc|table)\w*)?)(?:\.[a-z]+)?$"),
    ("E", r"(?:^|[._])(?:(?:word|tok(?:en)?|src|input)_?(?:word_)?emb\w*|embed_tokens|token|wte|shared|lut)$"),
    ("E", r"(?:^|[._])(?:emb|embed|embeddings?)$"),
)


def layer_prefix(names: Iterable[str]) -> str:
    """What stands before the number of the layer, in the names of most parameters."""
    prefixes = Counter(
        prefix for name in names for prefix in {name[: m.start()] for m in re.finditer(r"(?:^|\.)\d+\.", name)}
    )
    return max(prefixes, key=lambda p: (prefixes[p], -len(p)), default="")


def role(name: str, in_layer: bool) -> tuple[str, str]:
    """The part that a parameter belongs to, and which of its arrays it is.

    Inside a layer the parts are ``Q``, ``K``, ``V``, packed ``QKV`` and ``KV``, ``O``, ``1``, ``2``, ``G``,
    ``norm_1``, ``norm_2``; outside ``E``, ``P``, ``E_seg``, ``x_cls``, ``patch``, ``norm_embedding``,
    ``norm_final``. Unknown names belong to the part ``""``.
    """
    lowered = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("layrnorm", "layernorm")
    lowered = re.sub(r"_(weight|bias)$", r".\1", lowered)
    ending = KIND.search(lowered)
    stem, kind = (lowered[: ending.start()], ending[1]) if ending else (lowered, "")
    for part, pattern in IN_LAYER if in_layer else OUTSIDE:
        if re.search(pattern, stem):
            return part, kind
    return "", kind
