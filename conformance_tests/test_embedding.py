"""Checks of chapter 1: the embedding."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run
from conformance_tests.harness.wiring import demand_handed_on, demand_order, demand_unformed
from encoder_spec.embedding import scale


@decides("EMB-1", "EMB-4", "EMB-13", "EMB-14", level="trace")
def test_tokens_or_patches_become_their_vectors(run: Run) -> None:
    """The value of the slot ``embedding`` stands among the encoder's intermediates, and is what goes on."""
    demand_handed_on(run, "embedding")


@decides("EMB-2", "EMB-3", level="trace")
def test_embedding_has_the_scale_of_its_variant(run: Run) -> None:
    """The value of the slot ``embedding_scale`` stands among the intermediates, and is what goes on; no other one."""
    if run.encoder.profile["embedding_scale"].variant == "none":
        demand_unformed(run, run.case(), "embedding", scale)
    demand_handed_on(run, "embedding_scale")


@decides("EMB-5", "EMB-6", "EMB-15", level="trace")
def test_class_token_stands_first_or_is_absent(run: Run) -> None:
    """The value of the slot ``cls`` stands among the encoder's intermediates, and Z is as long as it."""
    got, want = (tuple(Z.shape[:2]) for Z in (run.output(run.case()), run.expected(run.case())))
    assert got == want, f"{run.encoder.profile['cls'].id}: (B, n) of Z is {got}, but the spec gives {want}"
    run.demand_intermediate("cls")


@decides("EMB-8", "EMB-11", level="trace")
def test_segments_are_added_or_absent(run: Run) -> None:
    """The value of the slot ``segment`` stands among the encoder's intermediates, and is what goes on unless normed."""
    if run.encoder.profile["embedding_norm"].variant == "none":
        demand_order(run, run.case(), "embedding_norm")
    run.demand_intermediate("segment")


@decides("EMB-10", "EMB-12", level="trace")
def test_embeddings_are_normed_or_not(run: Run) -> None:
    """The value of the slot ``embedding_norm`` stands among the encoder's intermediates, and is what goes on."""
    demand_handed_on(run, "embedding_norm")


@decides("EMB-7", "EMB-9", "EMB-16", level="trace")
def test_first_layer_reads_the_input_that_its_variant_makes(run: Run) -> None:
    """The value of the slot ``input`` stands among the encoder's intermediates, and is what goes on."""
    demand_handed_on(run, "input")
