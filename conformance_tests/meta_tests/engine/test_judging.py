"""One question in, one report out: verdicts, what goes wrong on the way, and who hears of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from conformance_tests.deviations import deviations
from conformance_tests.diagnosis.explanations import Explanation
from conformance_tests.engine import judging
from conformance_tests.engine.judging import Target, check, check_all, check_one, coarsest
from conformance_tests.engine.notes import below_resolution
from conformance_tests.errors import SubjectError, TargetError, Undetermined
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import Run
from conformance_tests.identification.opening import opened
from conformance_tests.quality.kill_matrix import SMALL, deviating
from conformance_tests.reports.report import Result, TargetReport
from conformance_tests.reports.watching import Watcher
from conformance_tests.subjects.guard import GuardedSubject
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import PROFILES


def result(outcome: str, level: str = "agreement") -> Result:
    return Result("ATT-3", "attention.scores", "test_attention::test", level, outcome)


def reference() -> nn.Module:
    return EncoderModule(Encoder(PROFILES["torch-post-ln"], SMALL))


def broken() -> nn.Module:
    return deviating(deviations()["scores-scaled-by-d-model"], "torch-post-ln")


def raising(fault: Exception) -> Callable[[], Any]:
    def load() -> Any:
        raise fault

    return load


@pytest.mark.parametrize(
    ("fault", "ended", "note"),
    [
        (SubjectError("it is no encoder"), "error", "it is no encoder"),
        (Undetermined("nothing tells"), "undetermined", "nothing tells"),
        (ValueError("a bad\nvalue"), "error", "importing the encoder raised ValueError: a bad"),
        (SystemExit(3), "error", "importing the encoder raised SystemExit: 3"),
    ],
)
def test_what_loading_raises_is_a_verdict_with_one_line(fault: Exception, ended: str, note: str) -> None:
    report = check_one(Target("theirs", raising(fault)), Question())
    assert (report.target, report.verdict, report.notes, report.requirements) == ("theirs", ended, [note], [])


def test_name_that_cannot_be_used_is_no_verdict() -> None:
    """It ends the command with status 2: nothing has been judged."""
    with pytest.raises(TargetError, match="no such thing"):
        check_one(Target("theirs", raising(TargetError("no such thing"))), Question())
    with pytest.raises(TargetError, match="absent"):
        check_all([reference, "absent.py:make"], Question())


def test_question_that_cannot_be_asked_is_refused_before_any_work() -> None:
    loaded: list[str] = []
    with pytest.raises(SpecificationError, match="int8"):
        check(lambda: loaded.append("loaded"), dtype="int8")
    assert loaded == []


class Listening(Watcher):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int, int]] = []
        self.left: list[list[Result]] = []

    def doing(self, what: str, done: int, of: int) -> None:
        self.done.append((what, done, of))

    def decided(self, report: TargetReport, undecided: list[Result]) -> None:
        self.left.append(undecided)


def test_watcher_hears_each_step_and_which_results_are_open() -> None:
    """From importing to explaining. One result less is open each time and none at the end; an open one is blocked."""
    watcher = Listening()
    report = check_one(Target("ours", reference), Question(level="static"), watcher)
    results = report.requirements
    steps = [(r.id, done, len(results)) for done, r in enumerate(results)]
    found_out = ("importing", "making", "identifying")
    before = [(step, 0, 1) for step in found_out]
    assert watcher.done == [(f"ours: {what}", *n) for what, *n in [*before, *steps, ("explaining", 1, 1)]]
    still = [Result(r.id, r.equation, r.test, r.level, "blocked") for r in results]
    assert watcher.left == [still[done:] for done in range(len(still) + 1)]


def test_a_variant_alone_is_identified_and_nothing_is_decided() -> None:
    """Its outputs are asked for all the same: they tell the order of the norms, which no shape shows."""
    report = check_one(Target("ours", reference), Question(variant_alone=True))
    assert (report.requirements, report.profile["identified"]) == ([], True)
    assert "layer" in report.profile["choices"]


def test_results_of_an_earlier_run_are_taken_over_and_not_decided_again() -> None:
    first = check_one(Target("ours", reference), Question(level="static"))
    kept = [r for r in first.requirements if r.id != "FFN-9"]
    marked = [Result(r.id, r.equation, r.test, r.level, r.outcome, "decided before") for r in kept]
    again = check_one(Target("ours", reference), Question(level="static"), decided=marked)
    assert [r.id for r in again.requirements] == [*(r.id for r in kept), "FFN-9"]
    assert {r.message for r in again.requirements if r.id != "FFN-9"} == {"decided before"}


def test_failure_is_placed_and_repeated_also_where_nobody_wants_it_explained() -> None:
    """The catalogue is not searched; where the encoder departs follows from its values alone."""
    report = check(broken, "torch-post-ln", explain=False).targets[0]
    assert (report.verdict, report.departs_at, report.diagnosis) == ("nonconformant", "attention.scores", [])
    failed = {r.id: r for r in report.of("fail")}
    assert failed["ATT-3"].repro.endswith("test_judging:broken --profile torch-post-ln --seed 0")
    assert failed["ATT-3"].smallest


def test_explained_failure_names_the_deviation() -> None:
    report = check(broken, "torch-post-ln", level="agreement").targets[0]
    assert [d["deviation"] for d in report.diagnosis] == ["scores-scaled-by-d-model"]
    assert report.diagnosis[0]["equation"] == "attention.scores"


def test_nothing_is_said_of_deviations_where_all_outputs_are_right() -> None:
    """No equation reproduces that an input is changed and changed back, and none is wrong."""

    class Changing(nn.TransformerEncoder):
        def forward(self, src: Tensor, *given: Any, **named: Any) -> Tensor:
            return super().forward(src.add_(1) - 1, *given, **named)

    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)
    report = check(Changing(layer, 2, enable_nested_tensor=False)).targets[0]
    assert ([r.id for r in report.of("fail")], report.explained) == (["ENC-6"], False)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_an_encoder_is_judged_with_gradients_where_its_owner_has_switched_them_off(off: Callable[[], Any]) -> None:
    made = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 2, enable_nested_tensor=False)
    with off():
        report = check(made).targets[0]
        assert not torch.is_grad_enabled()
    assert (report.verdict, report.level) == ("conformant", "gradient")


def test_known_failure_is_expected_and_does_not_count() -> None:
    known = {"ATT-3": "known since 2017", "ENC-2": "follows from it", "ENC-17": "never"}
    report = check(broken, expected=known, explain=False).targets[0]
    outcomes = {r.id: r.outcome for r in report.requirements}
    assert (outcomes["ATT-3"], outcomes["ENC-2"], outcomes["ENC-17"]) == ("xfail", "xfail", "xpass")


# Which target, and in which precision --------------------------------------------------


def test_a_target_is_a_name_or_the_encoder_itself() -> None:
    """A name is loaded when it is needed; what repeats the run belongs to either."""
    by_name = Target.of("torch-post-ln", Question(seed=5))
    assert (by_name.name, by_name.repro) == ("torch-post-ln", "encoder-spec check torch-post-ln --seed 5")
    assert isinstance(by_name.load(), nn.TransformerEncoder)
    encoder = reference()
    itself = Target.of(encoder, Question())
    assert (itself.name, itself.load()) == ("EncoderModule", encoder)
    assert Target.of(reference, Question()).name == "reference"


def test_several_targets_give_one_report() -> None:
    """In their order, with the seed of the question and the progress of each."""
    heard: list[str] = []
    report = check(
        [reference, "torch-post-ln"], level="static", seed=3, progress=lambda what, done, of: heard.append(what)
    )
    assert ([t.target for t in report.targets], report.seed) == (["reference", "torch-post-ln"], 3)
    assert [what for what in heard if what.endswith("importing")] == [
        "reference: importing",
        "torch-post-ln: importing",
    ]


def test_the_report_names_the_precision_and_what_it_leaves_open() -> None:
    fine, coarse = (check(reference, level="black-box", dtype=dtype).targets[0] for dtype in ("float64", "bfloat16"))
    assert (fine.dtype, fine.notes) == ("float64", [])
    assert (coarse.dtype, coarse.notes) == ("bfloat16", below_resolution("bfloat16"))


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have runs opened with other facts than were found out."""

    def alter(**facts: Any) -> None:
        @contextmanager
        def other(subject: Any, question: Question, *_: Any) -> Iterator[Run]:
            with opened(subject, question) as run:
                for name, value in facts.items():
                    setattr(run, name, value)
                yield run

        monkeypatch.setattr(judging, "opened", other)

    return alter


@pytest.mark.parametrize(
    ("narrowed", "dtype", "noted"),
    [
        (torch.float64, None, True),
        (torch.float64, "float64", False),
        (torch.float32, None, False),
        (None, None, False),
    ],
)
def test_a_precision_that_the_encoder_imposes_is_noted(
    narrowed: torch.dtype | None, dtype: str | None, noted: bool, altered: Callable[..., None]
) -> None:
    """If it is judged there for that reason: not where somebody asked for it, nor where it computes in another one."""
    altered(narrowed=narrowed)
    report = check(reference, level="black-box", dtype=dtype).targets[0]
    note = "computes a part in float64 whatever it is given: judged in float64"
    assert report.notes == ([note] if noted else [])


def test_an_encoder_of_which_something_is_not_known_is_not_conformant(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known is said, and a failure stays a failure."""
    monkeypatch.setattr(GuardedSubject, "unknown", lambda self: "which mask it takes is not known")
    sound = check(reference, "torch-post-ln", level="agreement").targets[0]
    wrong = check(broken, "torch-post-ln", level="agreement", explain=False).targets[0]
    assert (sound.verdict, wrong.verdict) == ("undetermined", "nonconformant")
    assert sound.notes == wrong.notes == ["which mask it takes is not known"]


def test_a_part_in_a_lower_precision_is_explained_in_that_one() -> None:
    """There rounding explains nothing; where the subject computes in its own precision alone, the run is the same."""
    with opened(reference(), Question()) as run:
        with coarsest(run) as same:
            assert same is run
        run.narrowed = torch.float32
        with coarsest(run) as coarse:
            assert coarse.subject.dtype is torch.float32
            assert coarse.question.seed == run.question.seed
        run.narrowed = torch.float64
        with coarsest(run) as same:
            assert same is run


def test_of_two_wrong_equations_each_is_named_with_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its slot, its equation of the profile, and the same sentence."""
    both = [deviations()[id] for id in ("scores-scaled-by-d-model", "norm-eps-outside-root")]
    found = Explanation(tuple(both), 1e-9)
    monkeypatch.setattr(judging, "explanations", lambda run, progress, slots: [found])
    report = check(broken, "torch-post-ln", level="agreement").targets[0]
    assert report.diagnosis == [
        {
            "deviation": one.id,
            "slot": one.slot,
            "equation": PROFILES["torch-post-ln"][one.slot].id,
            "residual": 1e-9,
            "says": str(found),
            "page": one.page,
            "together_with": [other.id],
        }
        for one, other in (both, reversed(both))
    ]


class Forgetful(nn.TransformerEncoder):
    """An encoder that writes into its own weights after each call with many positions, and in no other."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        output = super().forward(src, src_key_padding_mask=src_key_padding_mask)
        if src.shape[1] > 100:
            with torch.no_grad():
                cast("Any", self.layers[0]).linear1.weight.mul_(0.99)
        return output


@pytest.mark.parametrize("room", [0, 2**21], ids=["large", "small"])
def test_an_encoder_that_writes_into_its_weights_is_compared_with_those_that_it_was_given(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large or small: of a large one the specification reads the encoder's own memory.

    Where it departs is another question: in its next call it may have the weights of its set again.
    """
    monkeypatch.setattr("conformance_tests.harness.weight_sets.ROOM", room)
    layer = nn.TransformerEncoderLayer(16, 2, 40, batch_first=True, dropout=0.0)
    forgetful = Forgetful(layer, 2, enable_nested_tensor=False)
    report = check(forgetful, explain=False).targets[0]
    assert report.verdict == "nonconformant"
    assert "ENC-18" in {r.id for r in report.of("fail")}


AS_LARGE = {
    "conformance_tests.harness.weight_sets.ROOM": 0,
    "conformance_tests.computation.graph.LARGE": 8,
    "conformance_tests.subjects.torch_recording.LARGE": 8,
    "conformance_tests.numerics.sketches.LARGE": 8,
    "conformance_tests.identification.opening.SPARING": 0,
}
"""Limits of size so low that a small encoder is treated as a large one."""


@pytest.mark.parametrize(
    "deviation",
    ["", "scores-scaled-by-d-model", "activation-gelu-tanh", "norm-eps-outside-root", "output-bias-forgotten"],
)
def test_an_encoder_is_judged_alike_whether_it_counts_as_large(deviation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each outcome, the place where it departs, and what is said of it."""

    def judged() -> tuple[Any, ...]:
        encoder = deviating(deviations()[deviation], "torch-post-ln") if deviation else reference()
        report = check(encoder).targets[0]
        said = [(d["deviation"], d["slot"]) for d in report.diagnosis]
        return report.verdict, [(r.id, r.outcome) for r in report.requirements], report.departs_at, said

    want = judged()
    for place, value in AS_LARGE.items():
        monkeypatch.setattr(place, value)
    assert judged() == want
