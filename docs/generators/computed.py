"""The numbers and tables of the chapters, each computed when the site is built."""

import math
from collections.abc import Callable
from functools import partial

import torch

from encoder_spec.attention import alibi, buckets, row_of_places, slopes
from encoder_spec.cost import crossovers, customary, number, parameters
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import TOPICS, equations, requirements, slots, variants
from encoder_spec.ffn import gelu, gelu_tanh
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import (
    CONSTANTS,
    MODERNBERT,
    PROFILES,
    ROFORMER,
    TORCH_POST_LN,
    UNIVERSAL,
    VASWANI_2017,
    VIT,
    Profile,
)
from generators import architecture, cost, examples, front, mathml, rotary
from generators.html import equation_link, link, profile_link, prose, table

VALUES: dict[str, Callable[[], str]] = {}
BASE = Dimensions()


def value(function: Callable[[], str]) -> Callable[[], str]:
    """Let chapters show what ``function`` returns, under its name."""
    VALUES[function.__name__] = function
    return function


def counted(profile: Profile, part: str, dimensions: Dimensions = BASE) -> str:
    """The number of parameters of one part of an encoder."""
    return f"{number(parameters(profile)[part], dimensions):,}"


@value
def symbols() -> str:
    """The letters of the specification: sign, meaning, size in the base model."""
    sizes = BASE.sizes()
    rows = [
        (
            mathml.render(symbol.latex),
            prose(symbol.meaning),
            f"<code>{letter}</code>",
            f"{sizes[letter]:,}" if letter in sizes and letter in BASE_LETTERS else "",
        )
        for letter, symbol in SYMBOLS.items()
    ]
    return table(("Letter", "Meaning", "In code", "Base model"), rows)


BASE_LETTERS = ("d_model", "h", "d_k", "d_v", "d_ff", "N", "V")


@value
def base_sizes() -> str:
    """The sizes of the base model, as formulas."""
    shown = [f"{SYMBOLS[letter].latex} = {BASE.sizes()[letter]}" for letter in BASE_LETTERS if letter != "V"]
    return ", ".join(map(mathml.render, shown))


@value
def number_of_equations() -> str:
    """How many equations there are."""
    return str(len(equations()))


@value
def number_of_requirements() -> str:
    """How many requirements there are."""
    return str(len(requirements()))


@value
def number_of_slots() -> str:
    """How many slots there are."""
    return str(len(slots()))


@value
def number_of_choices() -> str:
    """How many encoders one could name by choosing a variant for every slot."""
    exponent = math.log10(math.prod(len(variants(slot)) for slot in slots()))
    return mathml.render(rf"10^{{{math.floor(exponent)}}}")


@value
def slot_map() -> str:
    """Every slot with its variants and with what two published encoders choose."""
    rows = [
        (
            link(f"equations-and-requirements.html#slot-{slot}", f"<code>{slot}</code>"),
            "<br>".join(equation_link(e.id) for e in variants(slot).values()),
            f"<code>{VASWANI_2017[slot].variant}</code>",
            f"<code>{VIT[slot].variant}</code>",
        )
        for slot in sorted(slots(), key=lambda slot: TOPICS.index(VASWANI_2017[slot].topic))
    ]
    head = ("Slot", "Equations that can fill it", profile_link(VASWANI_2017.name), profile_link(VIT.name))
    return table(head, rows)


@value
def profiles_by_difference() -> str:
    """Each profile with the slots in which it differs from the original encoder."""
    rows = [
        (
            profile_link(profile.name),
            str(len(changed)),
            ", ".join(f"<code>{slot}</code>" for slot in changed) or "–",
        )
        for profile in PROFILES.values()
        for changed in [[slot for slot in slots() if profile[slot] is not VASWANI_2017[slot]]]
    ]
    return table(("Profile", "Slots that differ", "Which"), rows)


@value
def constants() -> str:
    """The constants of the profiles: the ε that each publishes."""
    rows = [(profile_link(p.name), f"{p.constants[CONSTANTS['eps']]:g}") for p in PROFILES.values()]
    return table(("Profile", mathml.render(SYMBOLS["eps"].latex)), rows, kind="numbers")


@value
def longest_wavelength() -> str:
    """The wavelength of the slowest pair of the base model, in positions."""
    return f"{2 * math.pi * 10000 ** ((BASE.d_model - 2) / BASE.d_model):,.0f}"


@value
def attention_parameters() -> str:
    """Of one attention sublayer of the base model, without biases."""
    return counted(VASWANI_2017, "attention")


@value
def attention_parameters_with_biases() -> str:
    """Of one attention sublayer of the base model, with biases."""
    return counted(TORCH_POST_LN, "attention")


@value
def ffn_parameters() -> str:
    """Of one feed-forward network of the base model."""
    return counted(TORCH_POST_LN, "FFN")


@value
def norm_parameters() -> str:
    """Of the two norms of a layer of the base model."""
    return counted(TORCH_POST_LN, "norms")


@value
def layer_parameters() -> str:
    """Of a whole layer of the base model, with all biases."""
    return counted(TORCH_POST_LN, "layer")


@value
def ffn_share() -> str:
    """The feed-forward network's share of the parameters of a layer."""
    costs = parameters(TORCH_POST_LN)
    return f"{number(costs['FFN'], BASE) / number(costs['layer'], BASE):.0%}"


@value
def stack_parameters() -> str:
    """Of all layers of the base model, with all biases."""
    return counted(TORCH_POST_LN, "whole")


@value
def shared_stack_parameters() -> str:
    """The same where one layer serves for all."""
    return counted(TORCH_POST_LN.replace(sharing=UNIVERSAL["sharing"]), "whole")


@value
def attention_cheaper_than_ffn() -> str:
    """For which n an attention sublayer costs fewer FLOPs than the feed-forward network, in the base model."""
    bound = customary(crossovers(TORCH_POST_LN)["attention < FFN"])
    return mathml.render(f"n < {number(bound, BASE)}")


@value
def quadratic_cheaper_than_ffn() -> str:
    """For which n the n² part of attention costs fewer FLOPs than the feed-forward network, in the base model."""
    bound = customary(crossovers(TORCH_POST_LN)["n² part of attention < FFN"])
    return mathml.render(f"n < {number(bound, BASE)}")


@value
def largest_difference_of_gelus() -> str:
    """How far tanh-GELU departs from GELU."""
    x = torch.linspace(-6, 6, 120_001, dtype=torch.float64)
    return f"{float((gelu_tanh(x) - gelu(x)).abs().max()):.1e}"


@value
def shrinkage_of_the_unbiased_norm() -> str:
    """By how much d − 1 instead of d shrinks what is normed, at the width of the base model."""
    return f"{1 - math.sqrt((BASE.d_model - 1) / BASE.d_model):.2%}"


def slowest_turn(p: Profile, theta: float) -> str:
    """After how many positions the slowest pair of a profile's heads has come round, with the base θ."""
    d_k = Dimensions().replace(**p.sizes).d_k
    return f"{2 * math.pi * theta ** ((d_k - 2) / d_k):,.0f}"


@value
def slowest_rotary_turn() -> str:
    """After how many positions the slowest pair of RoFormer has come round."""
    return slowest_turn(ROFORMER, ROFORMER.constants["theta"])


@value
def rotary_bases() -> str:
    """The encoders that turn queries and keys by place alone: convention, base θ and wavelength of the slowest pair."""
    rows = [
        (
            profile_link(p.name),
            equation_link(p["rotation"].id),
            "<br>".join(f"{base:,.0f}" for base in bases),
            "<br>".join(slowest_turn(p, base) for base in bases),
        )
        for p in PROFILES.values()
        if p["rotation"].variant != "none" and p["angles"].variant == "geometric"
        for bases in [dict.fromkeys(p.choice("theta"))]
    ]
    head = ("Profile", "Rotation", mathml.render(SYMBOLS["theta"].latex), "Slowest pair, positions a turn")
    return table(head, rows, kind="numbers models")


@value
def columns_for_pairs() -> str:
    """The order of the eight columns of a head in which pairs turn what halves turn as they stand."""
    return ", ".join(map(str, rotary.permutation()))


@value
def columns_for_halves() -> str:
    """The order of the eight columns of a head in which halves turn what pairs turn as they stand."""
    return ", ".join(str(rotary.permutation().index(column)) for column in range(len(rotary.Q)))


def factor_of_alibi(head: int) -> str:
    """The factor by which one of eight heads with linear biases lowers the weight of a key 16 places away."""
    scores = torch.zeros(1, 8, 17, 17, dtype=torch.float64)
    return f"{math.exp(alibi(scores)[0, head, 0, 16]):.2g}"


@value
def factor_of_the_first_head() -> str:
    """That factor in the head of the steepest slope."""
    return factor_of_alibi(0)


@value
def factor_of_the_last_head() -> str:
    """That factor in the head of the gentlest slope."""
    return factor_of_alibi(-1)


@value
def further_slopes_of_twelve_heads() -> str:
    """The slopes of twelve heads that eight do not have."""
    return in_a_row([f"{slope:.2g}" for slope in slopes(12) if slope not in slopes(8)])


@value
def shared_rows_begin() -> str:
    """The first distance of each row that several distances share, of 32 rows for distances up to 128."""
    row = buckets(256, 32, 128)[0].tolist()  # of keys behind the query: each has the distance as its place
    first = {row[distance]: distance for distance in reversed(range(256))}
    return in_a_row([str(d) for d in sorted(first.values()) if d + 1 not in first.values()])


@value
def rows_for_places_of_14_by_14() -> str:
    """How many rows of a table tell how far 14 × 14 patches lie apart, without those for a class token."""
    return str(int(row_of_places(14 * 14, 14, 14).max()) + 1)


def in_a_row(words: list[str]) -> str:
    """Words with commas between them, and the last one behind "and"."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


MODERNBERT_LENGTH = 8192
"""Its longest input: Warner et al. 2024, §2.1."""


def scores_within_reach() -> int:
    """How many scores of one head lie within ModernBERT's window in its longest input: at the ends a part of it."""
    side = int(MODERNBERT.constants["window"]) // 2
    return MODERNBERT_LENGTH * (2 * side + 1) - side * (side + 1)


@value
def modernbert_layers() -> str:
    """How many layers ModernBERT has."""
    return str(MODERNBERT.sizes["N"])


def local_layers() -> int:
    """How many layers of ModernBERT read a window."""
    reach = MODERNBERT.choice("reach")
    return sum(reach[layer % len(reach)] is variants("reach")["local"] for layer in range(MODERNBERT.sizes["N"]))


@value
def modernbert_local_layers() -> str:
    """The number of ModernBERT's layers that read a window."""
    return str(local_layers())


@value
def modernbert_global_scores() -> str:
    """The scores of one head in a global layer of ModernBERT, in its longest input."""
    return f"{MODERNBERT_LENGTH**2:,}"


@value
def modernbert_local_scores() -> str:
    """The scores of one head in a local layer of ModernBERT, in its longest input."""
    return f"{scores_within_reach():,}"


@value
def modernbert_share_of_scores() -> str:
    """The scores of ModernBERT's layers, as a share of those that as many global layers have."""
    N, few = MODERNBERT.sizes["N"], local_layers()
    return f"{(N - few + few * scores_within_reach() / MODERNBERT_LENGTH**2) / N:.0%}"


VALUES |= cost.VALUES
VALUES["architecture"] = architecture.picture
VALUES["two_conventions"] = rotary.picture
VALUES |= {function.__name__: function for function in (front.state, front.first_report, front.install)}
VALUES |= {
    f"example_{name}": partial(examples.snippet, kind, path)
    for name, kind, path in (
        ("variant_implementation", "variant", "encoder_spec/ffn.py"),
        ("variant_oracle", "variant", "encoder_spec/oracle/ffn.py"),
        ("variant_check", "variant", "conformance_tests/test_ffn.py"),
        ("variant_demonstration", "variant", "conformance_tests/meta_tests/spec/test_ffn.py"),
        ("variant_profile", "variant", "encoder_spec/profiles.py"),
        ("equation_implementation", "equation", "encoder_spec/ffn.py"),
        ("equation_oracle", "equation", "encoder_spec/oracle/ffn.py"),
        ("equation_proof", "equation", "encoder_spec/proof/ffn.py"),
        ("equation_check", "equation", "conformance_tests/test_ffn.py"),
        ("equation_demonstration", "equation", "conformance_tests/meta_tests/spec/test_ffn.py"),
        ("deviation", "deviation", "conformance_tests/deviations/activations.py"),
        ("framework_itself", "framework", "tinynet.py"),
        ("framework_subject", "framework", "conformance_tests/subjects/tinynet.py"),
        ("framework_line", "framework", "conformance_tests/subjects/ready_made.py"),
    )
}
