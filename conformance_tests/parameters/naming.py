"""What parameters are called: from the names in use to the parts of an encoder.

Families and tutorials name the same dozen parameters in a few dozen ways. A rule is a
pattern for the name inside a layer, or outside of all layers; the first that matches
decides. Adding a family is adding its words to a pattern.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import takewhile

KIND = re.compile(r"\.(weight|bias|kernel|scale|gamma|beta|embedding)s?$")
"""The end of a name: which of a part's arrays it is. What stands before says which part."""

ATTENTION = r"att(?:entio)?n|(?<![a-z])att(?![a-z])|mha|msa|multi_?head|(?:^|\.)sa(?:_|\.|$)"
NORM = r"norm|(?<![a-z])lnf?(?![a-z])"
FFN = r"(?:^|[._])(?:ffn?|feed_?forward|mlp|net|position_?wise\w*)(?:\.(?:net|layers|model|seq|block))?"
BEFORE = r"(?:^|[._])(?:(?:to|w|fc|lin|linear|proj|dense|project)_?)?"
AFTER = r"(?:_?(?:proj|projection|lin|linear|dense|layer|map|w|net))?(?:\.0)?$"
MAP = r"(?:linear|fc|lin|w|dense|conv|layer|proj|map|(?<![a-z])ff?)_?"

BESIDE = re.compile(
    r"(?:^|[._])(?:pooler|head|classifier|decoder|lm_head|cls|predictions|cross_?att\w*|mask_token|entity\w*|visual\w*"
    r"|(?:w2e|e2w|e2e)_\w+)(?:[._]|$)|_head[._]"
)
"""What parts are called that stand on top of an encoder and not in it, or that further inputs alone address."""


def word(alternatives: str) -> str:
    """A pattern for one of these words, with what families put around it: ``to_q``, ``q_proj``, ``fc_q``."""
    return rf"{BEFORE}(?:{alternatives}){AFTER}"


def norm(alternatives: str) -> str:
    """A pattern for a norm whose name also has one of these words."""
    return rf"(?=.*(?:{NORM}))(?:.*(?:{alternatives}))"


# A norm has vectors alone, which tells it from the maps; its name tells which of the two it is.
NORMS = (
    ("norm_2", norm("post_att")),
    ("norm_1", norm(ATTENTION)),
    ("norm_2", norm(r"final|after|(?:^|\.)output[._]|ffn?|mlp|feed_?forward|intermediate|full_layer")),
    ("norm_2", norm(r"(?:norm|ln)_?(?:2|b|two|second)(?:$|\.)|(?:sub)?layers?\.1")),
    ("norm_1", norm(r"before|input|(?:norm|ln)_?(?:1|a|one|first)(?:$|\.)|(?:sub)?layers?\.0")),
    ("norm_2", rf"^(?:layer_?)?(?:{NORM})$"),
    *((f"norm_{place}", rf"(?:^|[._])(?:n|g|gain|rms)_?{place}$") for place in "12"),
    ("norm_1", rf"^pre_?(?:{ATTENTION})$"),
    ("norm_2", r"^pre_?(?:ffn?|feed_?forward|mlp)$"),
)

# The order matters: what is packed comes before its parts.
IN_LAYER = (
    ("1", rf"{FFN}[._]?(?:1|in|up)$"),
    ("2", rf"{FFN}[._]?(?:2|out|down|wo)$|(?:^|_)dense\.wo$"),
    ("QKV", word("[qkv]{3}|query_key_value|in_proj|in|c_attn")),
    ("KV", word("kv|key_value")),
    ("Q", word("qs?|quer(?:y|ies)")),
    ("K", word("ks?|keys?")),
    ("V", word("vs?|values?")),
    *((letter, rf"(?:{ATTENTION}).*lin\w*\.{place}$") for place, letter in enumerate("QKVO")),
    (
        "O",
        rf"(?=.*(?:{ATTENTION}))(?:.*{word(r'o|out|output|proj(?:ection)?|c_proj|dense|unify[a-z]*|merge|concat|final|fc|linear')})",
    ),
    ("O", r"(?:^|[._])(?:w_?o|o_proj|out_proj|to_o(?:ut)?|out_lin|fc_o)(?:\.0)?$|^(?:out|o)$"),
    ("G", r"(?:^|[._])(?:gate|gate_proj|wi_1|linear_v|w_?[g3])$"),
    ("1", rf"{MAP}(?:1|in)$|intermediate\.dense$|(?:^|[._])(?:c_fc|wi|wi_0|up|up_proj|expand|inner|(?<!from_)hidden)$"),
    ("1", rf"{FFN}(?:\.0(?:\.proj)?)?$"),
    (
        "2",
        rf"{MAP}(?:2|out)$|(?:^|[._])(?:output\.dense|c_proj|wo|down|down_proj|contract|ffn_output|outer|from_hidden)$",
    ),
    ("2", rf"{FFN}\.[2345]$"),
)

OUTSIDE = (
    ("norm_final", norm("emb_layer_norm_after")),
    ("norm_embedding", norm("emb|pre_?layer|input_norm")),
    (
        "norm_final",
        rf"^(?:(?:encoder|vision_model|model|transformer|stack)\.)*(?:layer_?|post_?|final_?|last_?|out(?:put)?_?)*(?:{NORM})"
        r"(?:_?(?:f|final|last|post|after|out(?:put)?))?$|^(?:final|last)$|^(?:n|g|gain|rms)_?(?:f|final|out)$",
    ),
    ("E_seg", r"(?:token_type|segment|seg)\w*$"),
    ("x_dist", r"dist(?:illation)?_token$"),
    ("conv", r"(?:^|[._])conv_?1$"),
    ("step", r"(?:^|[._])conv_?2$"),
    ("e", r"(?:^|[._])embed(?:ding)?s?_(?:hidden_mapping_in|proj(?:ect(?:ion)?)?)$"),
    ("x_cls", r"(?:cls|class)_?(?:token|embedding|emb)$"),
    ("patch", r"patch\w*(?:\.(?:proj|projection|conv\w*))?$|^conv_proj$"),
    ("P", r"(?:^|[._])(?:w?pe|\w*pos(?:ition)?s?(?:al)?(?:_?(?:emb|enc|table)\w*)?)(?:\.[a-z]+)?$"),
    ("E", r"(?:^|[._])(?:(?:word|tok(?:en)?|src|input)_?(?:word_)?emb\w*|embed_tokens|token|wte|shared|lut)$"),
    ("E", r"(?:^|[._])(?:emb|embed|embeddings?)(?:\.(?:word|tok|tokens?))?$|^(?:tok|tokens?|words?|vocab(?:ulary)?)$"),
)


def layer_prefix(names: Iterable[str]) -> str:
    """What stands before the number of the layer, in the names of most parameters.

    Where a number stands before it that is the same everywhere, as in a sequence of a model and a pooler,
    it is the one that differs. A decoder's layers are none of an encoder's.
    """
    numbered = [(name[: m.start()], m[0]) for name in names for m in re.finditer(r"(?:^|\.)\d+\.", name)]
    prefixes = Counter(prefix for prefix, _ in numbered)
    numbers = Counter(prefix for prefix, _ in set(numbered))
    most = max(prefixes.values(), default=0)
    return max(
        prefixes,
        key=lambda p: ("decoder" not in p, numbers[p] > 1 and 2 * prefixes[p] > most, prefixes[p], -len(p)),
        default="",
    )


def common_owner(names: Iterable[str]) -> list[str]:
    """The modules that own every array of these names, the outermost first."""
    owners = (name.split(".")[:-1] for name in names)
    return [here[0] for here in takewhile(lambda here: len(set(here)) == 1, zip(*owners, strict=False))]


def stem_and_kind(name: str) -> tuple[str, str]:
    """The part that a name speaks of, in plain words, and which of its arrays it is."""
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("layrnorm", "layernorm")
    plain = re.sub(r"_(weight|bias|kernel|gamma|beta)$", r".\1", plain)
    for letter, kind in (("g", "weight"), ("w", "weight"), ("b", "bias"), ("scale", "weight"), ("shift", "bias")):
        plain = re.sub(rf"((?:norm|ln)(?:\w*\.|_?\d+_)){letter}$", rf"\1{kind}", plain)
    plain = re.sub(r"((?:norm|ln)_?\d+)_(weight|bias)$", r"\1.\2", plain)
    plain = re.sub(r"((?:norm|ln)\w*)\.a_2$", r"\1.weight", re.sub(r"((?:norm|ln)\w*)\.b_2$", r"\1.bias", plain))
    plain = re.sub(r"(^|\.)b(?:ias)?_?([12qkvo]|q?kv)$", r"\1w\2.bias", plain)
    ending = KIND.search(plain)
    return (plain[: ending.start()], ending[1]) if ending else (plain, "")


def role(stem: str, *, in_layer: bool, is_norm: bool) -> str:
    """The part of an encoder that a stem names, or nothing if it is unknown.

    Inside a layer the parts are ``Q``, ``K``, ``V``, packed ``QKV`` and ``KV``, ``O``, ``1``, ``2``, ``G``,
    ``norm_1``, ``norm_2``; outside ``E``, ``P``, ``E_seg``, ``x_cls``, ``x_dist``, ``patch``, ``conv``, ``step``,
    ``e``, ``norm_embedding``, ``norm_final``.
    """
    if in_layer:
        rules = NORMS if is_norm else IN_LAYER
    else:
        # A class token is a vector as well.
        rules = tuple(rule for rule in OUTSIDE if is_norm or not rule[0].startswith("norm"))
    return next((part for part, pattern in rules if re.search(pattern, stem)), "")
