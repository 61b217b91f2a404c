"""Facts about an encoder that its author knows and the suite could not work out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.calling import Arguments
from conformance_tests.subjects.hints import demand_places
from conformance_tests.subjects.masks import STATEMENTS
from conformance_tests.subjects.spread.ranks import is_spread
from conformance_tests.subjects.subject import Subject
from conformance_tests.subjects.torch_subject import TorchSubject
from conformance_tests.targets.adapting import adapt
from conformance_tests.targets.resolving import make
from encoder_spec.equation import equations
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import VASWANI_2017

PACKED = ("W_QKV", "b_QKV", "W_KV", "b_KV")
"""Letters for arrays that hold several maps side by side."""

NORMS = ("norm_1", "norm_2", "norm_final", "norm_embedding", "norm_token", "norm_feature")
"""The places at which an encoder has norms."""


def described(
    encoder: Any,
    *,
    heads: int | None = None,
    parameters: Mapping[str, str] | None = None,
    mask: tuple[str, str] | None = None,
    choices: Mapping[str, str | float] | None = None,
    batch: int | None = None,
    length: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    cut: Mapping[str, int] | None = None,
) -> Subject:
    """Return an encoder with the facts that its author states.

    A stated fact comes first in the search for it, or replaces the search. Agreement of the outputs still decides, and
    the report names a statement that turns out wrong.

    Args:
        encoder: what ``check`` accepts.
        heads: the number of heads.
        parameters: canonical letter → the encoder's own name, with ``{l}`` for the number of the layer:
            ``{"W_Q": "blocks.{l}.alpha"}``. Letters are those of the equations, ``norm_1.gamma`` and the
            like, and ``W_QKV`` for maps stored side by side. ``.T`` after a name means that the map is
            stored output × input; without it the suite finds out.
        mask: the argument that takes the padding mask, and its meaning: ``"keep"`` (true at valid positions),
            ``"ignore"`` (true at padding), ``"additive"`` (0 or −∞) or ``"lengths"``.
        choices: the variant by slot, and constants such as ``eps``, as ``encoder-spec profiles`` writes them.
        batch: the number of sequences, if a call takes one alone.
        length: the number of positions, if a call takes one alone.
        arguments: values of further arguments, which every call of a torch module gets: ``{"task": 0}``.
        cut: of a module that is spread over processes, the axis along which a parameter is cut, by the encoder's own
            name with ``{l}`` for the layer; −1 for one that each process holds as a whole: ``{"blocks.{l}.alpha": 0}``.

    Raises:
        SpecificationError: if there is no such letter, meaning of a mask, slot, variant or constant.
        SubjectError: if it is not an encoder.
    """
    for letter in parameters or {}:
        demand_letter(letter)
    if mask is not None and (not isinstance(mask, tuple) or len(mask) != 2 or mask[1] not in STATEMENTS):
        meanings = ", ".join(STATEMENTS)
        raise SpecificationError(f"described: a mask is an argument and one of {meanings}, in a pair, but not {mask!r}")
    if heads is not None and (not isinstance(heads, int) or heads < 1):
        raise SpecificationError(f"described: heads must be a positive integer, but is {heads!r}")
    for what, number in (("batch", batch), ("length", length)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise SpecificationError(f"described: {what} must be a positive integer, but is {number!r}")
    said: dict[str, Any] = dict(choices or {})
    VASWANI_2017.replace(**said)
    demand_places(said)
    subject = adapt(make(encoder))
    stated = said | ({"num_heads": heads} if heads else {})
    if arguments and not isinstance(subject, TorchSubject):
        raise SpecificationError("described: arguments are stated of torch modules alone: wrap any other in a function")
    if cut and not is_spread():
        raise SpecificationError("described: cut is stated of encoders alone that are spread over several processes")
    if isinstance(subject, CalledSubject):
        demand_arguments(arguments or {}, subject.arguments())
    known = subject.hints
    subject.hints = replace(
        known,
        choices=known.choices | said,
        sizes=known.sizes | ({"h": heads} if heads else {}),
        parameters=dict(parameters or {}),
        mask=mask,
        stated=stated,
        batch=batch or 0,
        length=length or 0,
        arguments=dict(arguments or {}),
        cut=dict(cut or {}),
    )
    return subject


def demand_arguments(stated: Mapping[str, Any], arguments: Arguments) -> None:
    """Refuse values of arguments that a call does not have.

    Raises:
        SpecificationError: with those that there are.
    """
    for name in stated:
        if name not in list(arguments)[1:]:
            raise SpecificationError(
                f"described: the encoder has no further argument {name!r}; it takes {', '.join(arguments)}"
            )


def demand_letter(letter: str) -> None:
    """Refuse a name that is not a canonical letter.

    Raises:
        SpecificationError: with the letters that there are.
    """
    letters = {name for e in equations().values() for name in e.parameters}
    place, _, last = letter.rpartition(".")
    is_norm = last in ("gamma", "beta")
    if (letter not in letters or is_norm) and letter not in PACKED and not (place in NORMS and is_norm):
        known = ", ".join(sorted(letters - {"gamma", "beta"}))
        raise SpecificationError(
            f"described: there is no parameter {letter!r} in the equations; there are {known}, "
            f"norm_1.gamma, norm_1.beta ({', '.join(NORMS[1:])} likewise) and W_QKV"
        )
