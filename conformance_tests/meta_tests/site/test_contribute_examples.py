"""The examples for contributors do what their page says, each put into a copy of the tree."""

from pathlib import Path

import pytest

from conformance_tests.meta_tests.tree import ROOT, copied, printed, python

EXAMPLES = ROOT / "docs" / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples come with the repository, not with a wheel", allow_module_level=True)


def tree_with(example: str, folder: Path, leave_out: str = "") -> Path:
    """Copy both packages, and append each file of an example to the one of the same path."""
    copied(folder)
    for snippet in (EXAMPLES / example).rglob("*.py"):
        path = snippet.relative_to(EXAMPLES / example)
        if path.as_posix() != leave_out:
            with (folder / path).open("a", encoding="utf-8") as file:
                file.write("\n\n" + snippet.read_text(encoding="utf-8"))
    return folder


def passed(tree: Path, files: str, keyword: str) -> str:
    """The summary of the tests in these files that match a keyword; none may fail."""
    paths = [f"conformance_tests/meta_tests/{file}.py" for file in files.split()]
    done = python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", keyword, *paths)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout.splitlines()[-1].split(" in ")[0]


@pytest.mark.parametrize("example", ["variant", "equation"])
def test_a_new_equation_has_no_hole(example: str, tmp_path: Path) -> None:
    """Traceability finds oracle, requirements, tests and proof where the page says that they belong."""
    done = python(tree_with(example, tmp_path), "-m", "conformance_tests", "traceability")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.rstrip().endswith(" 0 holes")


@pytest.mark.parametrize(
    ("example", "left_out", "hole"),
    [
        ("variant", "encoder_spec/oracle/ffn.py", "ffn.relu_squared has no oracle"),
        ("equation", "conformance_tests/meta_tests/spec/test_ffn.py", "FFN-903 has no test"),
    ],
)
def test_the_half_that_was_forgotten_is_named(example: str, left_out: str, hole: str, tmp_path: Path) -> None:
    done = python(tree_with(example, tmp_path, left_out), "-m", "conformance_tests", "traceability")
    assert done.returncode != 0
    assert hole in done.stdout + done.stderr


def test_a_new_equation_agrees_with_its_oracle_its_proof_and_a_value_by_hand(tmp_path: Path) -> None:
    """Its oracle's arguments, value and gradient, the proof, and the demonstration: all written by the example."""
    tree = tree_with("equation", tmp_path)
    assert passed(tree, "spec/test_oracles", "bilinear").startswith("3 passed")
    assert passed(tree, "spec/test_ffn", "bilinear").startswith("1 passed")
    assert printed(tree, "from encoder_spec.proof import proofs; print(proofs()['FFN-903']())") == ["None"]


def test_a_new_variant_is_identified_with_its_profile(tmp_path: Path) -> None:
    program = """
from conformance_tests import check
from conformance_tests.quality.kill_matrix import SMALL
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES
target = check(EncoderModule(Encoder(PROFILES["primer"], SMALL))).targets[0]
print(target.verdict, target.profile["name"], target.profile["choices"]["activation"])
print([r.outcome for r in target.requirements if r.id == "FFN-901"])
"""
    tree = tree_with("variant", tmp_path)
    assert printed(tree, program) == ["conformant primer relu-squared", "['pass']"]
    assert passed(tree, "spec/test_ffn", "squared_relu").startswith("1 passed")


def test_a_new_deviation_is_noticed_and_named(tmp_path: Path) -> None:
    program = """
from conformance_tests.quality.kill_matrix import row
judged = row(("activation-capped-at-1", "vaswani-2017", "vaswani-2017"))
print(judged.verdict, "FFN-1" in judged.killed_by, judged.diagnosis[0])
"""
    assert printed(tree_with("deviation", tmp_path), program) == ["nonconformant True activation-capped-at-1"]


def test_an_encoder_of_a_new_framework_is_judged(tmp_path: Path) -> None:
    """It conforms, and how it is called is found out; declared to be another profile, it fails."""
    program = """
import tinynet
from conformance_tests import check
target = check(tinynet.Encoder()).targets[0]
print(target.verdict, target.level, target.profile["name"])
print(target.profile["conventions"]["mask"])
print(check(tinynet.Encoder(), profile="vaswani-2017").verdict)
"""
    assert printed(tree_with("framework", tmp_path), program) == [
        "conformant agreement torch-post-ln",
        "mask: (B, n), boolean, True = keep",
        "nonconformant",
    ]
