"""Chapter 12: what an encoder costs, derived from its equations.

Nothing here is typed in from a book. Parameters are sums over the declared symbolic shapes;
FLOPs and activations are read off the implementations themselves (``encoder_spec.primes``);
crossovers are solved for. Every cost is a SymPy expression in the project's letters.

Conventions: one multiply–add is 2 FLOPs; matrix products alone are counted, in the forward
pass; n is the length that the layers see, class token included. Activations are the
entries, not the bytes, of every intermediate that some equation returns.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import sympy
from sympy import Expr, Integer, Rational

from encoder_spec.assembly import Encoder, join
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SYMBOLS, demand
from encoder_spec.primes import SIZES, letters_of, measure
from encoder_spec.profiles import Profile

Costs = dict[str, Expr]


def symbol(letter: str) -> Expr:
    """The symbol of an axis: a positive integer, or a product of such for an axis like hd_k."""
    if letter.isdigit():
        return Integer(letter)
    factors = SYMBOLS[letter].factors
    return prod(map(symbol, factors)) if factors else sympy.Symbol(letter, integer=True, positive=True)


n, N, d_model, h, d_k, d_v = (symbol(letter) for letter in ("n", "N", "d_model", "h", "d_k", "d_v"))


def total(costs: Iterable[Expr]) -> Expr:
    """The expanded sum."""
    return sympy.expand(sum(costs, start=Integer(0)))


def customary(cost: Expr) -> Expr:
    """The cost with the customary head widths d_k = d_v = d_model/h."""
    return sympy.expand(sympy.cancel(cost.subs({d_k: d_model / h, d_v: d_model / h})))


def number(cost: Expr, dimensions: Dimensions, n: int = 1, B: int = 1) -> int | float:
    """The value of a cost for these sizes."""
    sizes = dimensions.sizes() | {"n": n, "B": B}
    value = cost.subs({symbol(letter): size for letter, size in sizes.items()})
    return int(value) if value.is_integer else float(value)


# Parameters ------------------------------------------------------------------------------


def count(shapes: Mapping[str, Sequence[str]]) -> Expr:
    """The number of entries of arrays of these symbolic shapes."""
    return total(prod(map(symbol, axes)) for axes in shapes.values())


def shapes_within(encoder: Encoder, slot: str, owner: str = "") -> dict[str, tuple[str, ...]]:
    """The parameters of the equation in ``slot`` and of all that it uses, or of those in slot ``owner`` alone."""
    return {
        encoder.home(join(place.path, name)): axes
        for place in encoder.places(slot=slot)
        if owner in ("", place.equation.slot)
        for name, axes in place.parameters.items()
    }


def parameters(profile: Profile) -> Costs:
    """The number of parameters of each part of an encoder and of the whole, symbolic also in N.

    What the head shares with the input, such as the token embedding, counts as the input's.

    Raises:
        SpecificationError: if the layers are shared in a way that is not affine in N.
    """
    one, two, three = (Encoder(profile, Dimensions(N=layers)) for layers in (1, 2, 3))
    of_one, of_two, of_three = (count(encoder.symbolic_shapes()) for encoder in (one, two, three))
    growth = of_two - of_one
    demand(of_three - of_two == growth, "the number of parameters is not affine in the number of layers")
    input, head = shapes_within(one, "input"), shapes_within(one, "head")
    return {
        "attention": count(shapes_within(one, "multihead")),
        "FFN": count(shapes_within(one, "ffn")),
        "norms": count(shapes_within(one, "layer", owner="norm")),
        "layer": count(shapes_within(one, "layer")),
        "input": count(input),
        "final norm": count(shapes_within(one, "final_norm")),
        "head": count({path: axes for path, axes in head.items() if path not in input}),
        "whole": sympy.expand(of_one + (N - 1) * growth),
    }


# FLOPs and activations -------------------------------------------------------------------

PARTS = {"attention": "multihead", "FFN": "ffn", "layer": "layer"}


def monomial(number: int) -> Expr:
    """The product of letters whose prime sizes multiply to ``number``."""
    factor, letters = letters_of(number)
    return Rational(factor.numerator, factor.denominator) * prod(symbol(letter) for letter in letters.elements())


def lengths_of_stages() -> dict[int, Expr]:
    """How many times each stage of a waveform gives at least for n positions, by these numbers at prime sizes.

    They are sums, such as 8n + 1, and so no products of sizes.
    """
    sizes, here, found = SIZES["n"], n, dict[int, Expr]()
    stages = Dimensions()
    for width, stride in zip(reversed(stages.widths), reversed(stages.strides), strict=True):
        sizes, here = (sizes - 1) * stride + width, sympy.expand((here - 1) * stride + width)
        found[sizes] = here
    return {size: length for size, length in found.items() if size % SIZES["n"]}


def product_of(size: int, lengths: Mapping[int, Expr], length: Expr = n) -> Expr:
    """The product that a number is, in which some lengths, by their sizes, may be sums, and n is another ``length``."""
    found = Integer(1)
    for times, here in lengths.items():
        while size % times == 0:
            size, found = size // times, found * here
    return found * monomial(size).subs(n, length)


def spent(profile: Profile, slot: str) -> Costs:
    """The FLOPs of what stands in ``slot``, by the equation that spends them."""
    booked = measure(profile, slot).flops
    lengths = lengths_of_stages()
    return {id: total(product_of(flops, lengths) for by, flops in booked if by == id) for id in dict(booked)}


def flops_by_equation(profile: Profile) -> Costs:
    """The FLOPs of one layer, by the equation that spends them."""
    return spent(profile, "layer")


def flops(profile: Profile) -> Costs:
    """The FLOPs of each part of an encoder and of the whole."""
    cost = {part: total(spent(profile, slot).values()) for part, slot in PARTS.items()}
    cost["input"] = input_flops(profile)
    cost["head"] = total(spent(profile, "head").values())
    return cost | {"whole": sympy.expand(cost["input"] + N * cost["layer"] + cost["head"])}


def input_flops(profile: Profile) -> Expr:
    """The FLOPs of the embedding, of the positions and of the input's own maps: nothing else of it multiplies matrices.

    The embedding reads as many tokens as the layers do, less those that are prepended; positions are told of those and
    of class tokens.
    """
    uses = profile["input"].slots
    if "embedding" not in uses:
        return Integer(0)
    cost = total(spent(profile, "embedding").values())
    maps = [axes for name, axes in profile["input"].parameters.items() if name.startswith("W_")]
    widened = total(2 * symbol("B") * n * prod(map(symbol, axes)) for axes in maps)
    placed = total(spent(profile, "position").values()).subs(n, n - joined(profile, "registers"))
    return sympy.expand(cost.subs(n, n - prepended(profile)) + placed + widened)


def joined(profile: Profile, slot: str) -> Expr:
    """How many tokens the equation in a slot of the input adds to those that the embedding reads."""
    number = measure(profile, slot).value.shape[1] - SIZES["n"] if slot in profile["input"].slots else 0
    return monomial(number) if number else Integer(0)


def prepended(profile: Profile) -> Expr:
    """How many tokens the layers see beyond those that the embedding reads."""
    return joined(profile, "cls") + joined(profile, "registers")


def activations(profile: Profile) -> Costs:
    """The entries of the intermediates of each part of a layer, and of all N layers.

    Values that are views of each other, such as Q and its heads, count once. A backward
    pass needs these arrays, and some that lie inside an equation besides; evaluation
    alone needs only a few of them at a time.
    """
    cost = {part: total(map(monomial, filter(None, measure(profile, slot).entries))) for part, slot in PARTS.items()}
    return cost | {"all layers": sympy.expand(N * cost["layer"])}


# Crossovers ------------------------------------------------------------------------------


def crossovers(profile: Profile) -> Costs:
    """For which n one part of a layer costs fewer FLOPs than another: for n below the expression.

    Both costs are divided by n, which leaves an inequality that is affine in n and whose
    n has a positive factor; pairs for which that is not so are left out, as where a part costs something for no token.
    """
    cost = flops(profile)
    attention, ffn = cost["attention"], cost["FFN"]
    quadratic = attention.coeff(n, 2) * n**2
    pairs = {
        "n² part of attention < rest of attention": (quadratic, attention - quadratic),
        "n² part of attention < FFN": (quadratic, ffn),
        "attention < FFN": (attention, ffn),
    }
    solved: Costs = {}
    for claim, (cheap, dear) in pairs.items():
        excess = sympy.expand((cheap - dear) / n)
        is_affine = excess.is_polynomial(n) and sympy.Poly(excess, n).degree() == 1
        if is_affine and excess.coeff(n, 1).is_positive:
            solved[claim] = sympy.simplify(sympy.solve(excess, n)[0])
    return solved


# The table -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line of the table: what is counted, of which part, as a formula and as a number."""

    quantity: str
    part: str
    expression: Expr
    number: int | float

    @property
    def text(self) -> str:
        """The formula in plain characters: ``4·d_model² + 4·d_model``."""
        superscripts = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
        powers = re.sub(r"\*\*(\d+)", lambda power: power[1].translate(superscripts), str(self.expression))
        return powers.replace("*", "·")

    @property
    def latex(self) -> str:
        """The formula typeset in the letters of ``notation``."""
        names = {symbol(letter): SYMBOLS[letter].latex for letter in map(str, self.expression.free_symbols)}
        return str(sympy.latex(self.expression, symbol_names=names))


def report(profile: Profile, dimensions: Dimensions, n: int, B: int = 1) -> list[Row]:
    """Every cost of an encoder as a table.

    Formulas have d_k = d_v = d_model/h wherever these dimensions do. A crossover's number
    is the length below which its claim holds; where it is not positive, it holds for none.
    """
    usual = dimensions.h * dimensions.d_k == dimensions.h * dimensions.d_v == dimensions.d_model
    table = {
        "parameters": parameters(profile),
        "FLOPs of a layer": flops_by_equation(profile),
        "FLOPs": flops(profile),
        "activations": activations(profile),
        "crossover at n": crossovers(profile),
    }
    return [
        Row(quantity, part, shown := customary(cost) if usual else cost, number(shown, dimensions, n, B))
        for quantity, costs in table.items()
        for part, cost in costs.items()
    ]
