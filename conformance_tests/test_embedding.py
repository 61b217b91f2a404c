"""Checks of chapter 1: the embedding."""

from conformance_tests.checks import decides
from conformance_tests.run import Case, Run
from conformance_tests.wiring import demand_order


@decides("EMB-1", "EMB-4", "EMB-13", "EMB-14", level="trace")
def test_tokens_or_patches_become_their_vectors(run: Run) -> None:
    """The value of the slot ``embedding`` stands among the encoder's intermediates."""
    run.demand_intermediate("embedding")


@decides("EMB-2", "EMB-3", level="trace")
def test_embedding_has_the_scale_of_its_variant(run: Run) -> None:
    """The value of the slot ``embedding_scale`` stands among the encoder's intermediates."""
    run.demand_intermediate("embedding_scale")


@decides("EMB-5", "EMB-6", "EMB-15", level="trace")
def test_class_token_stands_first_or_is_absent(run: Run) -> None:
    """The value of the slot ``cls`` stands among the encoder's intermediates."""
    run.demand_intermediate("cls")


@decides("EMB-8", "EMB-11", level="trace")
def test_segments_are_added_or_absent(run: Run) -> None:
    """The value of the slot ``segment`` stands among the encoder's intermediates."""
    run.demand_intermediate("segment")


@decides("EMB-10", "EMB-12", level="trace")
def test_embeddings_are_normed_or_not(run: Run) -> None:
    """The value of the slot ``embedding_norm`` stands among the encoder's intermediates, and is what goes on."""
    for case in run.cases(Case()):
        demand_order(run, case, "embedding_norm")
    run.demand_intermediate("embedding_norm")


@decides("EMB-7", "EMB-16", level="trace")
def test_input_is_the_sum_of_its_embeddings(run: Run) -> None:
    """The value of the slot ``input`` stands among the encoder's intermediates."""
    run.demand_intermediate("input")


@decides("EMB-9", level="trace")
def test_given_embeddings_enter_the_first_layer(run: Run) -> None:
    """The first layer reads the input itself, and not what something before it has made of it."""
    for case in run.cases(Case()):
        demand_order(run, case, "input")
    run.demand_intermediate("input")
