"""Checks of chapter 10: the stack."""

from collections.abc import Hashable

import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import FAST, LARGE, PADDED, UNPADDED, Case, Run
from conformance_tests.harness.weight_sets import FAINT, GIVEN, PERTURBED

ROUNDED = 1e-9
"""Changes of an output below this one are rounding: another length may be summed in another order."""


@decides("ENC-17", level="static")
def test_parameters_are_those_that_the_equations_declare(run: Run) -> None:
    """No parameter is missing, none is too many, and each has its declared shape; the framework knows of all."""
    hidden = [f"{name} should be {kind}" for name, kind in run.unregistered().items()]
    assert not hidden, (
        f"encoder: {', '.join(hidden)}: the framework does not know of the parameters there, "
        "which are neither trained nor saved, and not moved with the encoder"
    )
    declared = run.encoder.parameter_shapes()
    present = {path: tuple(array.shape) for path, array in run.stated_parameters().items()}
    wrong = [
        f"{path} is {present.get(path, 'missing')}, declared {declared.get(path, 'nowhere')}"
        for path in sorted(declared.keys() | present.keys())
        if declared.get(path) != present.get(path)
    ]
    assert not wrong, f"encoder: {len(wrong)} parameters differ from the profile's: {'; '.join(wrong[:4])}"


@decides("ENC-15", "ENC-16", level="static")
def test_layers_share_parameters_only_where_the_variant_says_so(run: Run) -> None:
    """Changing one layer's array leaves those of the others as they are, or all are that array."""
    layers = run.encoder.dimensions.N
    declared = [path.partition(".")[2].partition(".")[2] for path in run.encoder.parameter_shapes()]
    distinct: dict[str, dict[Hashable, Tensor]] = {}
    # Weights that nobody can change tell by which arrays they are alone.
    changed = PERTURBED in run.weight_sets
    if not changed and (merged := sorted(run.subject.stored_once())):
        raise Unsupported(
            f"equal arrays are stored once: layers may share {merged[0]}, or only begin with equal numbers"
        )
    for path, array in run.stated_parameters(PERTURBED if changed else GIVEN).items():
        stack, _, place = path.partition(".")
        if stack == "layers" and not run.weight_sets.is_fixed(path):
            seen = distinct.setdefault(place.partition(".")[2], {})
            if not (changed and any(torch.equal(array, a) for a in seen.values())):
                seen.setdefault(run.weight_sets.kept_at(path), array)
    wrong = {name: len(arrays) for name, arrays in distinct.items() if len(arrays) != declared.count(name)}
    in_words = ", ".join(f"{got} {name} where the spec gives {declared.count(name)}" for name, got in wrong.items())
    assert not wrong, f"encoder: {layers} layers have {in_words}: " + (
        "each layer has a part of its own"
        if any(got > declared.count(name) for name, got in wrong.items())
        else "is a part made once and used in every layer?"
    )


@decides("ENC-1", level="black-box")
def test_output_has_the_shape_and_dtype_of_the_hidden_states(run: Run) -> None:
    """(B, n, d_model) for every probe, also when every sequence ends in padding."""
    for case in run.cases(*UNPADDED, *PADDED, *FAST, Case(probe="all-end-padded", gradients=False)):
        got, want = run.output(case), run.expected(case)
        assert got.shape == want.shape, (
            f"encoder: Z has shape {tuple(got.shape)}, but the spec gives {tuple(want.shape)} [{run.context(case)}]"
        )
        asked = run.subject.dtype
        assert got.dtype == asked, f"encoder: Z is {got.dtype} for {asked} input [{run.context(case)}]"


@decides("ENC-2", level="agreement")
def test_output_agrees_without_padding(run: Run) -> None:
    """Z equals the specification's, with weights as given, perturbed, faint and loud, and for one token."""
    for case in run.cases(*UNPADDED):
        run.demand_agreement(case)
    run.expect("stack").is_alike_in_all_processes()


@decides("ENC-3", level="agreement")
def test_output_agrees_with_padding(run: Run) -> None:
    """Z equals the specification's at valid positions, with padding in the middle and on either side."""
    run.demand_mask()
    run.demand_agreeing(run.case())
    for case in run.cases(*PADDED):
        run.demand_agreement(case)


@decides("ENC-4", level="agreement")
def test_output_without_gradients_agrees_too(run: Run) -> None:
    """Without gradients (in torch, on the fast path) Z equals the specification's too, with and without padding."""
    for case in run.cases(*FAST):
        run.demand_agreeing(case._replace(gradients=True))
        run.demand_agreement(case)


@decides("ENC-18", level="agreement")
def test_output_agrees_for_large_inputs(run: Run) -> None:
    """Z equals the specification's for hundreds of positions, and for dozens of sequences, of one length or many."""
    run.demand_agreeing(run.case())
    for case in run.cases(*LARGE):
        run.demand_agreement(case)


@decides("ENC-19", level="agreement")
def test_output_agrees_as_the_encoder_is_used(run: Run) -> None:
    """Z equals the specification's up to rounding, in the precision in which it is kept and with its own weights."""
    run.demand_agreeing(run.case())
    run.demand_agreement_as_used()


@decides("ENC-5", level="black-box")
def test_samples_of_a_batch_are_independent(run: Run) -> None:
    """The first and the last sample alone give what they give in the batch."""
    for case in run.cases(Case(), Case(gradients=False)):
        run.demand_shaped(case)
        for sample in (0, -1):
            alone = run.encode(case, run.probes[case.probe].only(sample))
            run.demand_equal(alone[0], run.output(case)[sample], f"encoder: Z of sample {sample} alone", case)


@decides("ENC-6", level="black-box")
def test_input_and_mask_are_left_unchanged(run: Run) -> None:
    """After a call, the arrays that were handed in hold what they held."""
    for case in run.cases(Case(), Case(gradients=False), *PADDED):
        left_alone = run.answer(case).leaves_its_input
        assert left_alone, f"encoder: the call changed its own input or mask [{run.context(case)}]"


@decides("ENC-7", level="black-box")
def test_memory_layout_is_irrelevant(run: Run) -> None:
    """Equal numbers in another memory order give equal outputs."""
    for case in run.cases(Case(), Case(gradients=False)):
        strided = run.encode(case, run.probes[case.probe].strided())
        run.demand_equal(strided, run.output(case), "encoder: Z of a non-contiguous input", case)


@decides("ENC-8", level="gradient")
def test_every_parameter_influences_the_output(run: Run) -> None:
    """Some entry of every parameter has a gradient; the key bias cancels in the softmax and may have none."""
    felt: dict[str, bool] = {}
    for case in run.cases(Case(), Case(FAINT, "faint"), Case(GIVEN)):
        by_path = run.gradients(case).by_path
        felt |= {path: felt.get(path, False) or bool(gradient.any()) for path, gradient in by_path.items()}
    idle = [path for path in felt if not felt[path] and not path.endswith("b_K") and path not in run.stored]
    idle += run.idle_unmapped()
    assert not idle, f"encoder: {len(idle)} parameters influence nothing: {', '.join(idle[:6])}"
    run.demand_float64("gradients")  # one without influence has none in any precision, but small ones may be rounded


@decides("ENC-9", level="gradient")
def test_gradient_by_the_input_agrees(run: Run) -> None:
    """∂(Σ w · Z)/∂x for random w equals autograd through the specification."""
    run.demand_agreeing(*run.gradient_cases())
    for case in run.gradient_cases():
        got, want = run.gradients(case).by_input, run.expected_gradients(case).by_input
        if want is None:
            raise Unsupported("the input is not differentiable: it is token ids")
        assert got is not None, "encoder: no gradient reaches the input"
        run.demand_equal(got, want, "encoder: gradient by the input", case, amplification=10)


@decides("ENC-10", level="gradient")
def test_gradients_by_the_parameters_agree(run: Run) -> None:
    """∂(Σ w · Z)/∂θ for random w equals autograd through the specification, for every parameter."""
    run.demand_agreeing(*run.gradient_cases())
    for case in run.gradient_cases():
        got, want = run.gradients(case).by_path, run.expected_gradients(case).by_path
        for path in (path for path in want if path not in run.stored):
            run.demand_equal(got[path], want[path], run.gradient_in_words(path), case, amplification=10)


@decides("ENC-11", level="black-box")
def test_appended_token_changes_earlier_outputs(run: Run) -> None:
    """Each output depends on each token: with one token less, all others change."""
    run.demand_output_per_position()
    case = run.case()
    shorter = run.encode(case, run.probes[case.probe].without_last())
    if not shorter.shape[1]:
        raise Unsupported("its sequences have one position, and none is left without the last one")
    # Over all samples: in one of them attention may be so sharp that a position all but ignores the last token.
    change = (run.output(case)[:, : shorter.shape[1]] - shorter).abs().amax(dim=(0, -1))
    least = f"some position by {float(change.min()):.1e} alone, in all samples"
    what = least if change.max() > ROUNDED else "no earlier position at all: attention is causal, or absent"
    if change.min() <= ROUNDED and run.expected_change_without_last(case) <= ROUNDED:
        raise Unsupported("with its weights the specification's own outputs do not depend on the last token either")
    assert change.min() > ROUNDED, f"encoder: taking the last token away changes {what} [{run.context(case)}]"


@decides("ENC-13", "ENC-14", level="trace")
def test_stack_ends_as_its_variant_says(run: Run) -> None:
    """Norm(X^N), or X^N itself: one of the encoder's intermediates, and Z unless a head follows."""
    run.expect("final_norm").is_formed()
    if run.encoder.profile["head"].variant == "none":
        last = run.encoder.profile["final_norm"].id
        run.demand_equal(run.output(run.case()), run.expected(run.case()), f"{last}: Z", run.case())
