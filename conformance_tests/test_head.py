"""Checks of chapter 11: heads on top."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("HEAD-1", "HEAD-4", "HEAD-5", "HEAD-6", "HEAD-7", "HEAD-13", level="trace")
def test_head_computes_its_variant(run: Run) -> None:
    """The head's value for Z: one of the encoder's intermediates, and what is returned."""
    run.expect("head", *run.with_and_without_padding()).is_formed()
    case = run.case()
    run.demand_equal(run.output(case), run.expected(case), f"{run.encoder.profile['head'].id}: y", case)


@decides("HEAD-15", level="trace")
def test_each_sequence_gives_what_its_valid_positions_give_alone(run: Run) -> None:
    """The head's value for Z, and what is returned, with padding as well."""
    cases = run.with_and_without_padding()
    run.expect("head", *cases).is_formed()
    for case in cases:
        run.demand_equal(run.output(case), run.expected(case), f"{run.encoder.profile['head'].id}: y", case)


@decides("HEAD-2", "HEAD-3", "HEAD-8", "HEAD-9", "HEAD-12", level="trace")
def test_pool_reads_the_valid_positions_of_its_variant(run: Run) -> None:
    """The vector of each sequence, before it is mapped or brought to a length."""
    run.expect("pool", *run.with_and_without_padding()).is_formed()


@decides("HEAD-10", "HEAD-11", level="trace")
def test_vector_has_the_length_of_its_variant(run: Run) -> None:
    """The vector of each sequence behind its map, if it has one."""
    run.expect("length", *run.with_and_without_padding()).is_formed()


@decides("HEAD-14", level="trace")
def test_pooling_layer_computes_its_variant(run: Run) -> None:
    """Tanh of an affine map of the vector of each sequence."""
    run.expect("transform", *run.with_and_without_padding()).is_formed()


@decides("HEAD-16", level="trace")
def test_reader_computes_its_variant(run: Run) -> None:
    """Its value: what is read of the valid positions of each sequence."""
    run.expect("reader", *run.with_and_without_padding()).is_formed()
