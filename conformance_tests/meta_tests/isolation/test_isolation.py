"""Whatever a subject does to its process, it is named, and costs neither earlier results nor other targets."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch

import encoder_spec
from conformance_tests.engine.judging import check
from conformance_tests.harness.question import Question
from conformance_tests.isolation.process import is_our_own_work
from conformance_tests.isolation.supervisor import Limits, Workers
from conformance_tests.meta_tests.encoders import harmful
from conformance_tests.reports.report import Report, Result, TargetReport
from conformance_tests.subjects.guard import SETTINGS

PLACE = "conformance_tests.meta_tests.encoders.harmful:"

UNTOUCHED = {
    "Forks": "",
    "LeavesChild": "",
    "LeavesThread": "",
    "ClosesOutput": "",
    "PrintsMegabytes": "",
    "ReadsInput": "",
    "ReturnsNested": "",
    "ChangesRandomState": "torch's random state",
    "ReliesOnItsDefaultDtype": "the default dtype",
    "LeavesDirectory": "the working directory",
    "ChangesSettings": "the default dtype, the default device, the gradient mode, the number of threads, "
    "deterministic algorithms, the fast path, anomaly detection, the recursion limit",
}
"""Encoders that harm the process but compute the equations, and what the report says that they changed."""

MEMORY = r"was not judged within 1 GiB of memory \(allow more with --memory\): calling the encoder .*"
READING = r", while identifying it \(reading its computation\)$"

UNABLE = {
    "RaisesInInit": r"RaisesInInit\(\) raised ValueError: no encoder$",
    "Raises": r"raised LookupError: not here \(harmful.py:54\)$",
    "RaisesTheUnprintable": "raised Unprintable: making its message raised ValueError",
    "RaisesBaseException": "raised Doom: of all$",
    "RaisesKeyboardInterrupt": r"the subject raised KeyboardInterrupt" + READING,
    "ExitsInInit": "raised SystemExit: usage: train.py DATA$",
    "Exits": "raised SystemExit: 3$",
    "EndsProcess": r"ended its process with exit status 0" + READING,
    "EndsProcessInInit": 'ended its process with exit status 3; it last printed "loading weights", while making it$',
    "SegmentationFault": r"killed by SIGSEGV \(.+\), at harmful.py:\d+ in harm" + READING,
    "HoardsMemory": MEMORY + r"raised RuntimeError: .*can't allocate memory",
    "HoardsPythonMemory": MEMORY + "raised MemoryError",
    "RecursesForever": "raised RecursionError: maximum recursion depth exceeded",
    "WritesAReport": r"the subject wrote into the suite's own file descriptors" + READING,
    "ClosesEveryFile": r"the subject closed the suite's own file descriptors" + READING,
    "ReturnsNone": "the encoder returned NoneType, but hidden states are a tensor",
    "ReturnsText": "the encoder returned str, but",
    "ReturnsEmptyTuple": "the encoder returned tuple, but",
    "ReturnsMeta": "the encoder returned a meta tensor",
    "ReturnsSparse": "the encoder returned a sparse_coo tensor",
    "ReturnsIntegers": "the encoder returned a strided tensor of torch.int64",
    "ReturnsHugeOutput": "raised RuntimeError: .*can't allocate memory",
}
"""Encoders of which no check can say anything, and what the report says instead."""

HANGING = {
    "HangsInInit": r"hung: nothing came back within 10 s .*, at harmful.py:\d+ in __init__, while making it$",
    "Hangs": r"hung: nothing came back within 10 s \(--timeout\), at harmful.py:\d+ in harm" + READING,
}

WRONG = {
    "PatchesSoftmax": "ATT-6",
    "PatchesLinear": "ENC-2",
    "ModifiesInput": "ENC-6",
    "ReplacesJson": "ENC-2",
    "ReplacesBuiltins": "ENC-2",
    "ReplacesARoot": "ENC-2",
    "RaisesTheBudget": "ENC-2",
    "ReturnsFloat32": "ENC-1",
    "ReturnsNaN": "ENC-2",
    "ReturnsOtherShape": "ENC-1",
    "ReturnsScalar": "ENC-1",
}
"""Encoders that are judged as any other, and a requirement that each of them fails."""

LOST_LATER = {
    "FaultsOnOneSample": (1, r"killed by SIGSEGV .*, at harmful.py:\d+ in harm$"),
    "HangsOnOneSample": (1, r"hung: nothing came back within 10 s .*, at harmful.py:\d+ in harm$"),
    "EndsProcessWhenDifferentiated": (2, "ended its process with exit status 3$"),
}
"""Encoders that can be identified but end a check: how many of them, and what is said."""

FILES = {
    "ends.py": "import os; os._exit(3)",
    "exits.py": "import sys; sys.exit('usage')",
    "hangs.py": "import time; time.sleep(1000)",
    "interrupts.py": "raise KeyboardInterrupt",
    "a/encoder.py": "from parts import make",
    "a/parts.py": "from conformance_tests.meta_tests.encoders.subjects import Sound\nmake = lambda: Sound(inner=22)",
    "b/encoder.py": "from parts import make",
    "b/parts.py": "from conformance_tests.meta_tests.encoders.subjects import Sound\nmake = lambda: Sound(inner=23)",
    "c/encoder.py": (
        "import colorsys\n"
        "from conformance_tests.meta_tests.encoders.subjects import Sound as make\n"
        "assert colorsys.mine"
    ),
    "c/colorsys.py": "mine = True",
    **dict.fromkeys(["c/random.py", "c/queue.py", "c/types.py", "c/pstats.py"], "raise ImportError('not for you')"),
}


def results(target: TargetReport) -> dict[str, tuple[str, Any]]:
    """What was decided, with the numbers; how they round is left to the number of threads."""
    return {
        r.id: (r.outcome, r.error if r.error is None else pytest.approx(r.error, rel=0, abs=1e-13))
        for r in target.requirements
    }


def judged_in_one_go(targets: list[str], timeout: float) -> Report:
    """Judge targets one after the other, a sound one last."""
    with Workers(Limits(timeout, memory=1.0)) as workers:
        return workers.judge([*targets, f"{PLACE}Harmful"], Question()).report


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TargetReport]:
    """The reports of all harmful encoders. Those that hang wait beside the others, not behind them."""
    folder = tmp_path_factory.mktemp("isolation")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    quick = [
        f"{PLACE}{name}"
        for name in ("Harmful", *UNTOUCHED, *UNABLE, *WRONG, "ChangesTheSuite", *LOST_LATER)
        if "Hangs" not in name
    ]
    files = [f"{name}:make" for name in ("ends.py", "exits.py", "interrupts.py", *(f"{x}/encoder.py" for x in "abc"))]
    slow = [*(f"{PLACE}{name}" for name in HANGING), "hangs.py:make", f"{PLACE}HangsOnOneSample"]
    parts = [[*quick[::2], *files], quick[1::2], slow[::2], slow[1::2]]
    with chdir(folder), ThreadPoolExecutor(len(parts)) as pool:
        reports = list(pool.map(judged_in_one_go, parts, [120, 120, 10, 10]))
    found = {t.target.removeprefix(PLACE): t for report in reports for t in report.targets}
    return found | {f"last of part {part}": report.targets[-1] for part, report in enumerate(reports)}


@pytest.mark.parametrize("part", range(4))
def test_target_behind_all_harmful_ones_gets_the_results_of_a_process_of_its_own(
    part: int, judged: dict[str, TargetReport]
) -> None:
    """The same outcomes and the same rounding errors as in this process, where nothing was harmed."""
    last = judged[f"last of part {part}"]
    assert last.verdict == "conformant"
    assert results(last) == results(check(harmful.Harmful).targets[0])


def test_a_report_on_harmful_encoders_obeys_its_schema(judged: dict[str, TargetReport]) -> None:
    """Whatever became of them."""
    schema = json.loads((files("conformance_tests.reports") / "schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(Report(0, list(judged.values())).to_json()), schema)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_harm_beside_the_equations_changes_no_result(name: str, judged: dict[str, TargetReport]) -> None:
    """Each is sound, so its results are those of the sound encoder; what it changed is named."""
    target = judged[name]
    assert results(target) == results(judged["Harmful"]), target.notes
    said = f"the encoder changed {UNTOUCHED[name]} (put back for everybody else)"
    assert target.notes == ([said] if UNTOUCHED[name] else judged["Harmful"].notes)


@pytest.mark.parametrize("name", [*UNABLE, *HANGING])
def test_encoder_that_cannot_be_called_is_named(name: str, judged: dict[str, TargetReport]) -> None:
    """One line says what it did, and in which step."""
    target = judged[name]
    assert (target.verdict, target.requirements, target.notes[1:]) == ("error", [], [])
    assert re.search((UNABLE | HANGING)[name], target.notes[0]), target.notes
    assert "\n" not in target.notes[0]


def test_results_of_a_suite_that_was_changed_are_worth_nothing(judged: dict[str, TargetReport]) -> None:
    """The encoder that changes a class of the suite gets no verdict, and no result of that class."""
    target = judged["ChangesTheSuite"]
    assert (target.verdict, target.requirements) == ("error", [])
    said = "the encoder changed methods of the suite itself (Run): no verdict on it means anything until it leaves"
    assert target.notes[-1] == f"{said} them alone"


@pytest.mark.parametrize("name", WRONG)
def test_encoder_that_can_be_called_is_judged(name: str, judged: dict[str, TargetReport]) -> None:
    """The specification computes with what torch really is, also where the encoder has replaced a function."""
    target = judged[name]
    assert target.verdict == "nonconformant"
    assert WRONG[name] in [r.id for r in target.of("fail")]


@pytest.mark.parametrize("name", LOST_LATER)
def test_lost_check_costs_no_other(name: str, judged: dict[str, TargetReport]) -> None:
    """One check is an error; the others have the results of the sound encoder, or after a second loss are blocked."""
    target, (losses, said) = judged[name], LOST_LATER[name]
    errors = target.of("error")
    assert (target.verdict, len(errors), len(target.notes)) == ("error", losses, losses)
    for result, note in zip(errors, target.notes, strict=True):
        assert re.search(said, result.message), result.message
        assert note == f"{result.message}, while deciding {result.id}"
    decided = [r for r in results(target) if r[1] not in ("error", "blocked")]
    assert set(decided) <= set(results(judged["Harmful"]))
    assert [r.id for r in target.requirements] == [r.id for r in judged["Harmful"].requirements]
    blocked = target.of("blocked")
    assert bool(blocked) == (losses == 2)
    assert {r.message for r in blocked} <= {errors[-1].message}


def test_import_that_never_ends_or_ends_the_process_is_named(judged: dict[str, TargetReport]) -> None:
    """By status, by the exception, or by the line that hangs."""
    notes = {name: judged[f"{name}.py:make"].notes for name in ("ends", "exits", "hangs", "interrupts")}
    assert notes["ends"] == ["the subject ended its process with exit status 3, while importing it"]
    assert notes["exits"] == ["importing exits.py raised SystemExit: usage (exits.py:1)"]
    assert notes["interrupts"] == ["the subject raised KeyboardInterrupt, while importing it"]
    assert re.search(r"at hangs.py:1 in <module>, while importing it$", notes["hangs"][0])


def test_file_finds_the_modules_beside_it_and_no_one_elses(judged: dict[str, TargetReport]) -> None:
    """Two folders have a module ``parts``; the widths of the feed-forward layer tell which one was used."""
    widths = [judged[f"{folder}/encoder.py:make"].profile["choices"]["d_ff"] for folder in "ab"]
    assert widths == [22, 23]


def test_module_beside_a_file_may_have_the_name_of_a_standard_one(judged: dict[str, TargetReport]) -> None:
    """The file gets its own ``colorsys``; nobody meets the ``random.py`` and others, which cannot be imported."""
    target = judged["c/encoder.py:make"]
    assert (target.verdict, target.notes) == ("conformant", judged["Harmful"].notes)


def test_command_shows_nothing_of_what_a_subject_prints(tmp_path: Path) -> None:
    """A line for each target, a reason and the sum; megabytes do not block either stream; all results are written."""
    targets = [f"{PLACE}{name}" for name in ("PrintsMegabytes", "EndsProcess", "Harmful")]
    command = [sys.executable, "-m", "conformance_tests", "check", "-q", *targets, "--json", "report.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads((tmp_path / "report.json").read_text())["targets"]
    assert (done.returncode, done.stderr) == (1, "")
    assert [line.split(" ")[0] for line in done.stdout.splitlines()] == [*targets[:2], "", targets[2], "2"]
    assert [t["verdict"] for t in found] == ["conformant", "error", "conformant"]


def test_interrupted_command_reports_what_was_decided(tmp_path: Path) -> None:
    """Ctrl-C while the second target hangs: the first keeps its results, the file is written, the worker is gone."""
    targets = [f"{PLACE}{name}" for name in ("Harmful", "HangsInInit")]
    command = [sys.executable, "-m", "conformance_tests", "check", "-q", *targets, "--json", "report.json"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what a shell runs in the background ignores it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, preexec_fn=heard, **pipes) as process:
        worker = wait_for(tmp_path / "hanging")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    first, second = json.loads((tmp_path / "report.json").read_text())["targets"]
    assert (process.returncode, stderr) == (3, "interrupted\n")
    assert (first["verdict"], second["verdict"], second["notes"]) == ("conformant", "error", ["interrupted"])
    assert stdout.startswith(targets[0])
    assert is_gone(worker)


def test_interrupt_ends_all_targets_that_are_being_judged(tmp_path: Path) -> None:
    """Two hang, a third waits for its turn; nothing of them runs on."""
    hanging = "import os, time, pathlib; pathlib.Path({0!r}).write_text(str(os.getpid())); time.sleep(1000)"
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(hanging.format(f"{name} hangs"))
    targets = ["a.py:make", "b.py:make", "reference"]
    command = [sys.executable, "-m", "conformance_tests", "check", "-j", "2", *targets, "--json", "report.json"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, preexec_fn=heard) as process:
        workers = [wait_for(tmp_path / f"{name} hangs") for name in "ab"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 3
    found = json.loads((tmp_path / "report.json").read_text())["targets"]
    assert [t["notes"] for t in found] == [["interrupted"], ["interrupted"], ["interrupted before it was begun"]]
    assert all(map(is_gone, workers))


def test_worker_ends_with_its_parent(tmp_path: Path) -> None:
    """However the parent ends: here by SIGKILL, which it cannot handle, while the subject hangs."""
    command = [sys.executable, "-m", "conformance_tests", "check", f"{PLACE}HangsInInit"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        worker = wait_for(tmp_path / "hanging")
        process.kill()
    assert is_gone(worker)


def wait_for(file: Path) -> int:
    """The number in a file, when it is there."""
    for _ in range(600):
        if file.exists() and file.read_text():
            return int(file.read_text())
        time.sleep(0.1)
    raise TimeoutError(file)


def is_gone(process: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{process}/stat")
        if state.exists() and ") Z " in state.read_text():
            return True
        time.sleep(0.1)
    return False


def test_fault_of_the_suite_costs_one_target_and_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets behind it are judged; the traceback comes with the report of all targets."""
    monkeypatch.setattr("conformance_tests.isolation.supervisor.Worker", FaultyWorker)
    with Workers() as workers:
        judgement = workers.judge(["broken", "fine"], Question())
    assert [t.verdict for t in judgement.report.targets] == ["error", "conformant"]
    assert "ZeroDivisionError" in str(judgement.fault)


AGREES = Result("ENC-2", "encoder", "test_encoder::agreement", "agreement", "pass")


class FaultyWorker:
    """Answers as a worker does, of which the suite fails on the target ``broken``."""

    def __init__(self, memory: float | None, share: int) -> None:
        self.answers: list[dict[str, object]] = []

    def ask(self, target: str, **_: object) -> None:
        decided = {"results": [asdict(AGREES)], "undecided": [], "profile": {}}
        fine = {"target": target, "verdict": "conformant", "requirements": [asdict(AGREES)]}
        self.answers = [{"fault": "ZeroDivisionError"}] if target == "broken" else [decided, {"report": fine}]

    def answer(self, seconds: float) -> dict[str, object]:
        return self.answers.pop(0)

    def kill(self) -> None:
        """Nothing runs."""

    def end(self) -> None:
        """Nothing runs."""


def test_nothing_of_this_process_is_changed_by_a_check_within_it() -> None:
    """Every setting, every random state and the functions of torch are afterwards what they were."""
    check(harmful.PatchesSoftmax)  # what is imported for the first time adds its own filters of warnings
    before = {name: setting.read() for name, setting in SETTINGS.items()}
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    functions = torch.softmax, torch.nn.functional.softmax
    report = check([harmful.ChangesSettings, harmful.ChangesRandomState, harmful.PatchesSoftmax, harmful.Exits])
    assert [t.verdict for t in report.targets] == ["conformant", "conformant", "nonconformant", "error"]
    assert {name: setting.read() for name, setting in SETTINGS.items()} == before
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states
    assert (torch.softmax, torch.nn.functional.softmax) == functions


@pytest.mark.parametrize(
    ("files", "computing"),
    [
        (
            [
                "site-packages/torch/functional.py",
                "encoder_spec/attention.py",
                "conformance_tests/identification/search.py",
            ],
            True,
        ),
        (["site-packages/torch/functional.py", "conformance_tests/computation/graph.py", "theirs.py"], True),
        (["site-packages/torch/functional.py", "theirs.py", "conformance_tests/subjects/torch_subject.py"], False),
        (["site-packages/torch/nn/modules/linear.py", "conformance_tests/subjects/torch_subject.py"], False),
        (["conformance_tests/meta_tests/encoders/harmful.py", "conformance_tests/subjects/torch_subject.py"], False),
        (
            ["site-packages/transformers/bert.py", "conformance_tests/subjects/torch_subject.py", "encoder_spec/x.py"],
            False,
        ),
        ([], False),
    ],
)
def test_a_long_search_is_not_the_subjects_fault(files: list[str], computing: bool) -> None:
    """Where the innermost frame outside of libraries is one of ours, nothing of the subject runs."""
    root = Path(encoder_spec.__file__).parents[1]
    assert is_our_own_work(str(root / file) for file in files) is computing
