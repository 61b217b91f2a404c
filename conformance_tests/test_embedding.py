"""Checks of chapter 1: the embedding."""

from conformance_tests.errors import Unsupported
from conformance_tests.harness.checks import decides
from conformance_tests.harness.rare_ids import with_ids
from conformance_tests.harness.run import PADDED, Case, Run
from encoder_spec.embedding import scale

SHARE_IN_FLOAT32 = 1e-5
"""How far outputs may be apart where masked tokens are counted: two whole numbers divided give a float32, 6e-8 off.

The layers multiply that. One token more or less changes the outputs by percents.
"""


@decides("EMB-1", "EMB-4", "EMB-13", "EMB-14", "EMB-17", "EMB-18", "EMB-19", "EMB-29", level="trace")
def test_tokens_or_patches_become_their_vectors(run: Run) -> None:
    """Rows of E, patches times W_patch, vectors as they are: an intermediate, and what is normed or goes on."""
    run.expect("embedding").reaches("token_norm").is_formed()


@decides("EMB-30", "EMB-31", "EMB-32", "EMB-33", level="trace")
def test_stages_of_a_waveform_are_those_of_their_variants(run: Run) -> None:
    """GELU of a convolution, normed or not: an intermediate, and what the next stage or the map reads."""
    run.expect("stage").reaches("stage", "feature_norm").is_formed()


@decides("EMB-20", "EMB-21", level="trace")
def test_features_are_normed_or_mapped_as_they_are(run: Run) -> None:
    """The norm of what is given, or itself: what the map reads."""
    run.expect("feature_norm").reaches("embedding").is_formed()


@decides("EMB-22", "EMB-23", level="trace")
def test_tokens_are_normed_or_not(run: Run) -> None:
    """The norm of each token, or the token itself: an intermediate, and what is activated or goes on."""
    run.expect("token_norm").reaches("token_activation").is_formed()


@decides("EMB-24", "EMB-25", level="trace")
def test_tokens_are_activated_or_not(run: Run) -> None:
    """The activation of each token, or the token itself: an intermediate, and what is scaled and summed."""
    run.expect("token_activation").reaches("embedding_scale").is_formed()


@decides("EMB-2", "EMB-3", level="trace")
def test_embedding_has_the_scale_of_its_variant(run: Run) -> None:
    """√d_model · E[i], or E[i] itself: an intermediate, what the sum reads, and nowhere scaled where it must not be."""
    if run.encoder.profile["embedding_scale"].variant == "none":
        run.expect("token_activation").is_not_changed_by(scale)
    run.expect("embedding_scale").reaches("cls").is_formed()


@decides("EMB-34", level="trace")
def test_masked_tokens_are_left_out_of_the_embedding(run: Run) -> None:
    """The output with a masked token in each sequence, and the embedding as it is scaled without one."""
    mask_id, V = int(run.encoder.profile.constants["mask_id"]), run.encoder.dimensions.V
    if mask_id >= V:
        raise Unsupported(f"no token has the id {mask_id} of masked ones: there are {V}")
    for case in filter(run.agrees, run.cases(Case(), *PADDED)):
        probe, _ = with_ids(run.probes[case.probe], [mask_id])
        got, want = run.encode(case, probe), run.evaluated(case, probe)
        allowed = max(run.budget(case) or 0.0, SHARE_IN_FLOAT32)
        run.demand_equal(got, want, "embedding: Z with a masked token", case, valid=run.valid(case), budget=allowed)
    run.expect("embedding_scale").reaches("cls").is_formed()


@decides("EMB-5", "EMB-6", "EMB-15", level="trace")
def test_class_token_stands_first_or_is_absent(run: Run) -> None:
    """[x_cls; X], or X itself: one of the encoder's intermediates, and Z has as many positions."""
    demand_as_long(run, "cls")
    run.expect("cls").is_formed()


def demand_as_long(run: Run, slot: str) -> None:
    """Demand that the sequence is as long as the equation in a slot makes it."""
    got, want = (tuple(Z.shape[:2]) for Z in (run.output(run.case()), run.expected(run.case())))
    assert got == want, f"{run.encoder.profile[slot].id}: (B, n) of Z is {got}, but the spec gives {want}"


@decides("EMB-26", "EMB-27", "EMB-28", level="trace")
def test_registers_stand_where_they_belong_or_are_absent(run: Run) -> None:
    """[x_cls; X_reg; X], [x_cls; X; X_reg], or [x_cls; X] itself, with positions: an intermediate."""
    demand_as_long(run, "registers")
    run.expect("registers").is_formed()


@decides("EMB-8", "EMB-11", level="trace")
def test_segments_are_added_or_absent(run: Run) -> None:
    """X + E_seg[segments], or X itself: an intermediate, and what goes on, unless a norm stands between."""
    if run.encoder.profile["embedding_norm"].variant == "none":
        run.expect("embedding_norm").reaches("dropout")
    run.expect("segment").is_formed()


@decides("EMB-10", "EMB-12", level="trace")
def test_embeddings_are_normed_or_not(run: Run) -> None:
    """The norm of the summed embeddings, or their sum itself: an intermediate, and what goes on."""
    run.expect("embedding_norm").reaches("dropout").is_formed()


@decides("EMB-7", "EMB-9", "EMB-16", level="trace")
def test_first_layer_reads_the_input_that_its_variant_makes(run: Run) -> None:
    """X⁰, the embedded ids or the given embeddings: an intermediate, and what the first layer reads."""
    run.expect("input").reaches("stack").is_formed()
