"""``encoder_conformance`` in somebody's own test suite, as pytest runs it there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance_tests import encoder_conformance
from conformance_tests.engine.judging import check

SUITE = """
import sys
from conformance_tests import encoder_conformance

assert "torch" not in sys.modules
made = []

def sound():
    import torch
    made.append("sound")
    layer = torch.nn.TransformerEncoderLayer(30, 5, 44, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

def broken():
    from conformance_tests.meta_tests.encoders.catalogue import all_defects
    return all_defects()["ScaledByModelWidth"].make()

@encoder_conformance(sound)
def test_sound(requirement):
    requirement.check()

class TestOfAClass:
    @encoder_conformance("reference-vit", level="static", seed=3)
    def test_named(self, requirement):
        requirement.check()

@encoder_conformance(broken, expected={"ENC-2": "known", "ENC-1": "once true"})
def test_broken(requirement):
    requirement.check()

@encoder_conformance(sound, profile="torch-pre-ln", level="static")
def test_declared(requirement):
    requirement.check()

@encoder_conformance(dict)
def test_none(requirement):
    requirement.check()

def test_encoder_was_made_once():
    assert made == ["sound"] * 2
"""


SHARED = """
from pathlib import Path
from conformance_tests import encoder_conformance

def broken():
    with Path("made").open("a") as made:
        made.write("made\\n")
    from conformance_tests.meta_tests.encoders.catalogue import all_defects
    return all_defects()["ScaledByModelWidth"].make()

@encoder_conformance(broken)
def test_broken(requirement):
    requirement.check()
"""


def run_pytest(folder: Path, *options: str, **environment: str) -> str:
    """What pytest prints, with every warning an error and neither configuration nor cache of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *options]
    variables = os.environ | environment
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One run over all decorated tests."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "test_theirs.py").write_text(SUITE)
    return run_pytest(folder, "-v", "-rs", "--no-header", "test_theirs.py")


def outcomes(printed: str, test: str) -> dict[str, str]:
    """How each item of a decorated test ended, by the id of its requirement."""
    return dict(re.findall(rf"::{test}\[(\S+)\] (\w+)", printed))


def test_each_requirement_is_one_item_with_its_id(printed: str) -> None:
    """The ids are those that ``check`` reports of the same encoder; nothing is skipped that concerns other encoders."""
    reported = {r.id: r.outcome for r in check("torch-post-ln").requirements}
    assert outcomes(printed, "test_sound") == dict.fromkeys(reported, "PASSED")
    static = [r.id for r in check("reference-vit", level="static").requirements]
    assert outcomes(printed, "test_named") == dict.fromkeys(static, "PASSED")


def test_encoder_is_judged_once_for_all_items(printed: str) -> None:
    """Two decorated tests of one function: each makes it once."""
    assert re.search(r"::test_encoder_was_made_once PASSED", printed), printed[-2000:]


def test_processes_of_one_run_share_the_judgement(tmp_path: Path) -> None:
    """Each of two collects all items; the encoder is made by the one that comes first, and nothing is left behind."""
    (tmp_path / "test_shared.py").write_text(SHARED)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    printed = run_pytest(tmp_path, "-q", "-n", "2", "test_shared.py", TMPDIR=str(scratch))
    assert re.search(r"^FAILED test_shared.py::test_broken\[ATT-3\]", printed, re.MULTILINE), printed[-2000:]
    assert (tmp_path / "made").read_text() == "made\n"
    assert [file.name for file in scratch.iterdir() if not file.name.startswith("pytest-of")] == []


def test_items_end_as_their_requirements(printed: str) -> None:
    """Fail and xpass fail, xfail is marked as such, blocked is skipped, pass passes."""
    found = outcomes(printed, "test_broken")
    picked = {id: found[id] for id in ("ATT-3", "ENC-1", "ENC-2", "ENC-3", "ATT-1")}
    assert picked == {"ATT-3": "FAILED", "ENC-1": "FAILED", "ENC-2": "XFAIL", "ENC-3": "SKIPPED", "ATT-1": "PASSED"}


def test_failure_says_what_and_how_to_repeat_it(printed: str) -> None:
    """Message, statement and command, under the line of the test that failed and no other."""
    assert "AssertionError: ATT-3: attention.scores: the scores are multiplied by 0.182574" in printed
    assert re.search(
        r"^E +S\[j, k\] = Σ_c Q\[j, c\] K\[k, c\] / √d_k, with the width of one head", printed, re.MULTILINE
    )
    assert "ENC-1: passes, but was expected to fail (once true): remove it from the expected failures" in printed
    assert re.search(r"^E +Departs from the specification at attention\.scores", printed, re.MULTILINE)
    assert re.search(r"^E +Diagnosis: as your encoder's computation shows, the scores are", printed, re.MULTILINE)
    assert "encoder-spec check test_theirs.py:sound --profile torch-pre-ln --level static --seed 0" in printed
    assert "decorator.py" not in printed


def test_skipped_item_says_why(printed: str) -> None:
    """What is blocked names the equation that is wrong before it."""
    assert re.search(
        r"^SKIPPED .* blocked: the encoder departs from the specification at attention", printed, re.MULTILINE
    )


def test_declared_profile_is_what_must_hold(printed: str) -> None:
    """Torch's encoder is Post-LN: the final norm that the Pre-LN profile declares is not among its parameters."""
    assert outcomes(printed, "test_declared")["ENC-17"] == "FAILED"


def test_what_is_no_encoder_has_one_item_that_fails(printed: str) -> None:
    """It says what is wrong with it, instead of passing for want of items."""
    assert outcomes(printed, "test_none") == {"encoder": "FAILED"}
    assert "dict: error; dict is not an encoder" in printed


UNUSABLE = {
    '"nobody"': "Unknown target 'nobody'",
    '"torch-post-ln", profile="nobody"': "there is no profile 'nobody'",
    '"torch-post-ln", expected={"ENC-99": "why"}': "expected: there is no requirement 'ENC-99'",
    '"torch-post-ln", level="foo"': "there is no level 'foo': choose among static, black-box, agreement",
    '"torch-post-ln", seed="x"': "a seed is a whole number from 0 to 2147483648, but not 'x'",
}


def test_what_cannot_be_used_is_said_at_collection(tmp_path: Path) -> None:
    """One line for each, without a traceback through the suite."""
    for number, arguments in enumerate(UNUSABLE):
        (tmp_path / f"test_{number}.py").write_text(
            f"from conformance_tests import encoder_conformance\n@encoder_conformance({arguments})\n"
            "def test_encoder(requirement): requirement.check()\n"
        )
    printed = run_pytest(tmp_path, "-q")
    assert [said for said in UNUSABLE.values() if f"encoder_conformance: {said}" not in printed] == []
    assert "Traceback" not in printed
    assert "decorator.py" not in printed
    assert f"{len(UNUSABLE)} errors" in printed


def test_a_decorator_without_an_encoder_is_refused() -> None:
    """Without parentheses it would get the test in the place of the encoder, and pytest would find no test."""

    def test_encoder(requirement: Any) -> None:
        requirement.check()

    with pytest.raises(TypeError, match=r"name the encoder: @encoder_conformance\(make_encoder\)"):
        encoder_conformance(test_encoder)


def test_decorator_is_at_hand_without_torch() -> None:
    """Importing it from the package costs pytest, and nothing else that is heavy."""
    heavy = "sorted({'torch', 'numpy', 'jinja2'} & {*sys.modules})"
    code = f"import sys; from conformance_tests import encoder_conformance; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
