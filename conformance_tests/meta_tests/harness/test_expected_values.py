"""What a check expects of a value: that it is formed, and reaches what reads it, which the specification knows."""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import conformance_tests
from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import PADDED, Case
from conformance_tests.identification.opening import opened
from conformance_tests.meta_tests.harness.conftest import Runs
from conformance_tests.numerics.probes import Probes
from conformance_tests.quality.kill_matrix import SMALL
from encoder_spec.assembly import Encoder
from encoder_spec.embedding import scale
from encoder_spec.equation import TOPICS, Equation
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES

CHECKS = Path(conformance_tests.__file__).parent


def readers_named_in_checks() -> Iterator[tuple[str, str]]:
    """Each pair of slots for which some check says ``run.expect(slot, …).reaches(reader)``."""
    for topic in TOPICS:
        for node in ast.walk(ast.parse((CHECKS / f"test_{topic}.py").read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    ast.Attribute(ast.Call(ast.Attribute(attr="expect"), [ast.Constant(slot), *_]), "reaches"), readers
                ):
                    yield from ((slot, reader.value) for reader in readers if isinstance(reader, ast.Constant))


def readers_in(profile: str) -> dict[str, set[str]]:
    """Which slots read the value of each: those that are given it, and the one that gets it as a part's result."""
    encoder = Encoder(PROFILES[profile], SMALL)
    module, probe = EncoderModule(encoder, dtype=torch.float64), Probes(encoder, 0)["scattered"]
    made: dict[int, set[str]] = defaultdict(set)  # several, where an equation leaves its input as it is
    values: list[Any] = []  # kept alive, so that no two values have one id
    readers: dict[str, set[str]] = defaultdict(set)
    calls: list[str] = []

    def watched(equation: Equation) -> Callable[..., Any]:
        def apply(*flowing: Any, **supplied: Any) -> Any:
            for value in flowing:
                for slot in made.get(id(value), ()):
                    readers[slot].add(equation.slot)
            calls.append(equation.slot)
            result = equation.function(*flowing, **supplied)
            calls.pop()
            if calls:
                readers[equation.slot].add(calls[-1])
            for value in result if isinstance(result, tuple) else (result,):
                values.append(value)
                made[id(value)].add(equation.slot)
            return result

        return apply

    assert probe.keep is not None
    run = encoder.bind(dict(module.named_parameters()), evaluate=watched)
    run(probe.keep[:, None], *probe.inputs)
    return readers


def test_every_reader_that_a_check_names_reads_the_value() -> None:
    """In some published profile: the check's sentence is true of the specification."""
    known: dict[str, set[str]] = defaultdict(set)
    for profile in PROFILES:
        for slot, readers in readers_in(profile).items():
            known[slot] |= readers
    named = set(readers_named_in_checks())
    assert len(named) >= 12
    assert [(slot, reader) for slot, reader in sorted(named) if reader not in known[slot]] == []


@pytest.mark.parametrize("slot", ["projections", "split", "scores", "weights", "values", "merge", "output", "ffn"])
def test_values_of_the_specification_itself_are_formed_and_reach_their_readers(slot: str, run_of: Runs) -> None:
    expected = run_of().expect(slot, Case(), *PADDED)
    assert expected.reaches().is_formed() is expected


def test_value_that_is_not_the_specifications_is_a_disagreement_with_place_and_amount(run_of: Runs) -> None:
    with pytest.raises(Disagreement, match=r"attention.scores: S\[\d, \d, \d, \d\] = .*layers\.0") as wrong:
        run_of(deviation="scores-scaled-by-d-model").expect("scores").is_formed()
    assert wrong.value.error is not None
    assert wrong.value.budget is not None
    assert wrong.value.error > 1e6 * wrong.value.budget


def test_what_stands_behind_a_departure_is_blocked(run_of: Runs) -> None:
    """The weights never had right scores to read."""
    run = run_of(deviation="scores-scaled-by-d-model")
    with pytest.raises(Blocked, match=r"departs from the specification at attention\.scores"):
        run.expect("weights").is_formed()
    run.expect("projections").is_formed()


def test_right_equation_at_another_input_is_attributed_to_the_one_that_gives_it(run_of: Runs) -> None:
    """The residual sum is right for the rescaled sublayer: what hands that on is wrong, and the sum is not."""
    run = run_of(deviation="dropout-rescaled-in-evaluation")
    with pytest.raises(Disagreement, match=r"^dropout.*reads another input than in the specification"):
        run.expect("dropout").reaches("residual")
    assert run.departs_at == run.encoder.profile["dropout"].id


def test_scale_that_the_profile_has_not_is_noticed(run_of: Runs) -> None:
    with pytest.raises(Disagreement, match="is changed by scale, but not in the profile"):
        run_of("bert", "embedding-scaled").expect("embedding").is_not_changed_by(scale)
    run_of("bert").expect("embedding").is_not_changed_by(scale)


class OutputsAlone:
    """An encoder of the specification that shows its weights and outputs, and nothing else."""

    def __init__(self) -> None:
        self.module = EncoderModule(Encoder(PROFILES["torch-post-ln"], SMALL), dtype=torch.float64)
        self.weights = {name: p.detach().numpy() for name, p in self.module.named_parameters()}

    def encode(self, x: Any, mask: Any) -> Any:
        keep = None if mask is None else torch.from_numpy(mask)
        return self.module(torch.from_numpy(x), keep=keep).detach().numpy()


def test_subject_without_intermediates_leaves_expectations_open() -> None:
    """Neither a pass nor a failure: it is said that nothing can be seen."""
    with opened(OutputsAlone(), Question("torch-post-ln")) as run:
        with pytest.raises(Unsupported, match="does not show its intermediates"):
            run.expect("scores").is_formed()
        assert run.departs_at is None
