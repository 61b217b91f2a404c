"""Head of a model: how it turns the hidden states of its encoder into what it returns, by agreement."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import permutations, product

import torch
from torch import Tensor

from conformance_tests.computation.shown import Facts, Finding
from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.rare_ids import ids_apart, rare_ids
from conformance_tests.harness.run import PADDED, Case, Run
from conformance_tests.numerics.compare import demand_equal
from conformance_tests.subjects.subject import Subject
from encoder_spec.assembly import Encoder, everything
from encoder_spec.equation import variants

MOST_ROUNDED = 64
"""So many roundings may part a head below float64 from what it gives: it sums positions, or features."""

OF_THE_END = ("last", "counted")
"""Variants of pooling that read one position, which is not the first."""

ONE_FOR_EACH_SEQUENCE = 2
"""So many axes has a result that is one vector for each sequence."""


def run_with_head(run: Run) -> Run | None:
    """Return the run of the whole model whose hidden states another run judges, if some head gives what it returns.

    Where the hidden states themselves are wrong without padding, or no head gives what is returned, there is none.
    """
    case = run.case()
    with suppress(Blocked, Unsupported):
        models = run.subject.with_heads(run.probes[case.probe].inputs)
        if models and run.agrees(case):
            fill(models[0], above(run, models[0]), run.question.seed)
            found = list(filter(None, (headed(run, model, case) for model in models)))
            return min(found, key=lambda one: len(one.facts.findings), default=None)
    return None


def above(run: Run, model: Subject) -> Mapping[str, Tensor]:
    """Return the arrays of a model on top of the hidden states that a run judges, by its own names."""
    below = run.subject.weights().keys()
    return {name: w for name, w in model.weights().items() if name not in below}


def fill(model: Subject, arrays: Mapping[str, Tensor], seed: int) -> None:
    """Give a model random numbers in the place of arrays that are 0, as those of a new classifier often are.

    A map of zeros gives the same whatever it reads. The model has its own numbers again when it has been judged.
    """
    if any(not w.any() for w in arrays.values()):
        random = torch.Generator().manual_seed(seed)
        drawn = {n: w if w.any() else torch.randn(w.shape, generator=random).to(w) for n, w in arrays.items()}
        model.set_weights({**model.weights(), **drawn})


def headed(run: Run, model: Subject, case: Case) -> Run | None:
    """Return the run of a whole model with a head that gives what it returns; None if none does.

    Heads are tried without padding, on the model's own hidden states; where no published one fits, those of which the
    model itself turns the pooled vector into something, or all vectors. Of heads that differ with padding alone, the
    one counts that does with it what the model does. A single position that is read is that of the class token, if
    there is one; of a head that reads another one that is said.
    """
    has_class_token = run.encoder.profile["cls"].variant == "cls"
    whole = replace(run, subject=model, facts=Facts(), narrowed=None, comparisons=[], looked_at=(Case(), *PADDED))
    with suppress(Disagreement, Blocked, Unsupported):
        returned, Z = whole.output(case), run.output(case)
        if returned.ndim != ONE_FOR_EACH_SEQUENCE or len(returned) != len(Z):
            return None

        def fit(head: tuple[Encoder, Mapping[str, Tensor]]) -> bool:
            is_read = not (has_class_token and head[0].profile["pool"].variant in OF_THE_END)
            return is_read and is_given(returned.double(), given_by(*head, run, Z.double()), model.dtype)

        tried = (heads(run, model, returned.shape[-1]), its_own(whole, case, Z), of_any_kind(whole, case, Z))
        found = next(filter(None, (list(filter(fit, some)) for some in tried)), [])
        fitting = [replace(whole, encoder=e, mapping=run.mapping.with_constants(p)) for e, p in found]
        if has_class_token and not fitting and (another := reading_another(run, whole, returned, Z)) is not None:
            return another
        # One that chooses a position by its id may have found none, and begun with the first.
        fitting = [one for one in fitting if not ids_apart(one, rare_ids(run))]
        if len(fitting) > 1:
            fitting.sort(key=lambda one: not all(map(one.agrees, one.cases(*PADDED))))
        return with_padding(run, fitting[0]) if fitting else None
    return None


def judged_of_head(whole: Run) -> str:
    """Return what is judged behind the hidden states of a whole model, as a part of a sentence."""
    profile = whole.encoder.profile
    if profile["head"].variant == "read":
        return "what follows is the model's own, and is judged in leaving padding out alone"
    if profile["head"].variant != "transformed":
        return "what follows is judged as its head"
    title = profile["pool"].title
    return f"what follows reads the {title[0].lower()}{title[1:]}, and is judged in that alone"


def its_own(whole: Run, case: Case, Z: Tensor) -> Iterator[tuple[Encoder, Mapping[str, Tensor]]]:
    """Yield the encoder below each pool, whose vector the model itself turns into what it returns.

    Every pool gives the vector that stands at all positions. So the model shows what it turns any vector into, if one
    position gives the same as many. A sum does not do so, and does not count as a pool.

    Args:
        whole: of the whole model.
        case: without padding.
        Z: its hidden states there.
    """
    probe, model = whole.probes[case.probe], whole.subject

    def of(inputs: tuple[Tensor, ...], positions: int) -> Callable[[Tensor], Tensor]:
        def own(u: Tensor) -> Tensor:
            """Call the model with a vector at every position."""
            of_each = tuple(x[:1].expand(len(u), *x.shape[1:]).clone() for x in inputs)
            return model.made_of(u[:, None].expand(-1, positions, -1), of_each).double()

        return own

    n, vectors = Z.shape[1], Z[:, 0].double()
    own = of(probe.inputs, n)
    made = own(vectors)
    if is_given(made, made[:1].expand_as(made), model.dtype):
        return  # whatever it reads, it returns the same
    if probe.by_position and whole.sizes is None:
        of_one = of(tuple(x[:, :1] for x in probe.inputs), 1 + n - probe.inputs[0].shape[1])
        if not is_given(of_one(vectors), made, model.dtype):
            return
    elif model.takes_mask:
        return  # nothing tells a mean from a sum, which padding makes smaller
    for pool in variants("pool"):
        chosen = whole.encoder.profile.replace(head="transformed", pool=pool, transform=own)
        yield Encoder(chosen, whole.encoder.dimensions), {}


def of_any_kind(whole: Run, case: Case, Z: Tensor) -> Iterator[tuple[Encoder, Mapping[str, Tensor]]]:
    """Yield the encoder whose valid positions the model itself turns into what it returns, whatever it does with them.

    With the hidden states of a sequence alone, it shows what it turns these into. One that turns them into something
    else beside other tokens reads more than hidden states; and one that knows their order may well tell padding
    between them from padding behind them.

    Args:
        whole: of the whole model.
        case: without padding.
        Z: its hidden states there.
    """
    probe, model = whole.probes[case.probe], whole.subject
    if not model.takes_mask or not probe.by_position or whole.sizes is not None:
        return
    prepended = Z.shape[1] - probe.inputs[0].shape[1]

    def own(hidden: Tensor, keep: Tensor) -> Tensor:
        """Call the model with the hidden states of the valid positions of each sequence."""
        valid = keep.expand(len(hidden), 1, hidden.shape[1])[:, 0]
        if bool(valid.all()):
            return of_valid(hidden)
        return torch.cat([of_valid(z[None, kept]) for z, kept in zip(hidden, valid, strict=True)])

    def of_valid(hidden: Tensor) -> Tensor:
        places = torch.arange(hidden.shape[1] - prepended)
        some = (x[:1, places % x.shape[1]] for x in probe.inputs)
        return model.made_of(hidden, tuple(x.expand(len(hidden), *x.shape[1:]).clone() for x in some)).double()

    made = of_valid(Z)
    is_even = is_given(made, made[:1].expand_as(made), model.dtype)
    apart = torch.cat([Z[:, ::2], Z[:, 1::2]], dim=1)  # no two neighbours stay neighbours
    if not is_even and is_given(of_valid(apart), made, model.dtype):
        chosen = whole.encoder.profile.replace(head="read", reader=own)
        yield Encoder(chosen, whole.encoder.dimensions), {}


def with_padding(run: Run, one: Run) -> Run:
    """Return the run of a model with a head, with what is wrong with that where sequences are padded.

    In float64 the vector of each sequence is compared itself; below, only what is returned tells.

    Args:
        run: of the hidden states.
        one: of the whole model.
    """
    if one.subject.dtype is torch.float64 or all(map(one.agrees, one.cases(*PADDED))):
        return one
    if not all(map(run.agrees, run.cases(*PADDED))):
        return one  # the hidden states are to blame
    says = f"the head ({one.encoder.profile['pool'].variant}) reads other positions than those that are kept"
    return replace(one, facts=Facts((Finding("pool", says),)))


def reading_another(run: Run, whole: Run, returned: Tensor, Z: Tensor) -> Run | None:
    """Return the run of a model whose head reads the class token, if its own head reads another position alone.

    Args:
        run: of the hidden states.
        whole: of the whole model.
        returned: what the model gives.
        Z: the hidden states from which it does.
    """
    n = Z.shape[1]
    for encoder, parameters in heads(run, whole.subject, returned.shape[-1]):
        for place in range(1, n) if encoder.profile["pool"].variant == "first" else ():
            read = Z.double().roll(-place, 1)
            if is_given(returned.double(), given_by(encoder, parameters, run, read), whole.subject.dtype):
                says = f"the head reads position {place} of {n}, and the class token stands at position 0"
                mapping = run.mapping.with_constants(parameters)
                return replace(whole, encoder=encoder, mapping=mapping, facts=Facts((Finding("pool", says),)))
    return None


def given_by(encoder: Encoder, parameters: Mapping[str, Tensor], run: Run, Z: Tensor) -> Tensor:
    """Return what a head gives for hidden states of a run, behind the norm that stands between them, if one does."""
    if encoder.profile["final_norm"] is not run.encoder.profile["final_norm"]:
        Z = encoder.bind(parameters, slot="final_norm")(Z)
    y: Tensor = encoder.bind(parameters, slot="head")(Z, everything(None, (Z,)))
    return y


def is_given(returned: Tensor, want: Tensor, dtype: torch.dtype) -> bool:
    """Return whether a head gives what is returned, up to what a few operations of a precision round."""
    rounding = MOST_ROUNDED * torch.finfo(dtype).eps * float(want.abs().max())
    with suppress(Disagreement):
        demand_equal(returned, want, "", budget=None if dtype is torch.float64 else rounding)
        return True
    return False


def heads(run: Run, model: Subject, width: int) -> Iterator[tuple[Encoder, Mapping[str, Tensor]]]:
    """Yield the encoder below each head that may give vectors of a width, with the parameters on top of Z."""
    for below, of_norm, arrays in ends(run, list(above(run, model).values())):
        for pool, length in product(variants("pool"), variants("length")):
            chosen = below.profile.replace(pool=pool, length=length)
            if width == below.dimensions.d_model:
                yield Encoder(chosen.replace(head="pooled"), below.dimensions), of_norm
            for parameters in maps(arrays, below.dimensions.d_model, width):
                sizes = below.dimensions.replace(classes=width)
                yield Encoder(chosen.replace(head="classifier"), sizes), of_norm | parameters


def ends(run: Run, arrays: Sequence[Tensor]) -> Iterator[tuple[Encoder, dict[str, Tensor], Sequence[Tensor]]]:
    """Yield the encoder of a run, as it is and with a norm behind its layers that has some of the arrays on top of it.

    The norm of one position is that position of the norms: it does not matter which comes first.

    Yields:
        The encoder, the parameters of the norm, and the arrays that are left for a head.
    """
    encoder = run.encoder
    yield encoder, {}, arrays
    if encoder.profile["final_norm"].variant == "none":
        normed = Encoder(encoder.profile.replace(final_norm="norm"), encoder.dimensions)
        paths = [path for path in normed.parameter_shapes() if path.startswith("norm_final.")]
        vectors = [place for place, w in enumerate(arrays) if tuple(w.shape) == (encoder.dimensions.d_model,)]
        for chosen in permutations(vectors, len(paths)):
            left = [w for place, w in enumerate(arrays) if place not in chosen]
            yield normed, {path: arrays[place] for path, place in zip(paths, chosen, strict=True)}, left


def maps(arrays: Sequence[Tensor], d_model: int, width: int) -> Iterator[dict[str, Tensor]]:
    """Yield the ways in which arrays make one map from hidden states to vectors of a width."""
    matrices = [w for w in arrays if w.ndim == 2]
    biases = [w for w in arrays if tuple(w.shape) == (width,)]
    if len(matrices) != 1 or len(biases) + 1 != len(arrays) or len(biases) > 1:
        return
    b = biases[0] if biases else matrices[0].new_zeros(width)
    for W in (matrices[0].mT, matrices[0]):
        if tuple(W.shape) == (d_model, width):
            yield {"W_cls": W, "b_cls": b}
