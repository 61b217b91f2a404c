"""The numbers and tables of the chapters, each computed when the site is built."""

import math
from collections.abc import Callable
from functools import partial

import torch

from encoder_spec.cost import crossovers, customary, number, parameters
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import TOPICS, equations, requirements, slots, variants
from encoder_spec.ffn import gelu, gelu_tanh
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import CONSTANTS, PROFILES, TORCH_POST_LN, UNIVERSAL, VASWANI_2017, VIT, Profile
from generators import architecture, cost, examples, mathml, rotary
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


VALUES |= cost.VALUES
VALUES["architecture"] = architecture.picture
VALUES["two_conventions"] = rotary.picture
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
