"""Scaffolds for contributors: they stand where they belong, import, do not pass as done, and can be filled in."""

import re
import shutil
from pathlib import Path

import pytest

from conformance_tests.frontends import scaffold
from conformance_tests.meta_tests.tree import ROOT, copied, printed, python
from conformance_tests.quality.traceability import FILL_IN
from encoder_spec.equation import TOPICS, equations, variants

EQUATION = ("new", "equation", "ffn.relu_squared", "--slot", "activation")
DEVIATION = ("new", "deviation", "activation-capped-at-1", "--of", "ffn.relu", "--noticed-by", "FFN-1")
PROFILE = ("new", "profile", "primer", "--set", "activation=gelu", "--set", "norm_final.eps=1e-3")
EMPTY_PROFILE = ("new", "profile", "primer-2", "--base", "bert")

HALVES = {
    EQUATION: [
        "conformance_tests/meta_tests/spec/test_ffn.py",
        "conformance_tests/test_ffn.py",
        "encoder_spec/ffn.py",
        "encoder_spec/oracle/ffn.py",
    ],
    DEVIATION: ["conformance_tests/deviations/activations.py"],
    PROFILE: ["encoder_spec/profiles.py"],
    EMPTY_PROFILE: ["encoder_spec/profiles.py"],
}
"""The files of Python in which each scaffold asks for something."""


def by_hand(number: str) -> dict[str, dict[str, str]]:
    """Return what a contributor writes in the place of each mark; the requirement has this number."""
    return {
        "encoder_spec/ffn.py": {
            "FILL IN: what holds for every input, in one sentence.": "It is max(0, ·), squared.",
            "FILL IN: its title. FILL IN: its source, with section and number of the formula.": (
                "Squared ReLU. So et al. 2021, §4."
            ),
            "FILL IN: the formula $$": r"\max(0, x)^2 $$",
            'FILL IN: what the source leaves open, or "nothing".': "nothing.",
            'raise NotImplementedError("FILL IN: the formula ffn.relu_squared, on tensors")': (
                "return x.clamp(min=0) ** 2"
            ),
        },
        "encoder_spec/oracle/ffn.py": {
            "FILL IN: the formula in index notation.": "y[…] = x[…]² where x[…] > 0, else 0.",
            'raise NotImplementedError("FILL IN: the formula ffn.relu_squared once more, entry by entry, '
            'from the paper alone")': "return _for_each_entry(lambda entry: entry * entry if entry > 0 else 0.0, x)",
        },
        "conformance_tests/test_ffn.py": {
            "FILL IN: what is compared with what.": "The activation's output stands among the intermediates.",
            'raise NotImplementedError("FILL IN: what decides ' + number + ", often "
            "run.expect('activation').is_formed()\")": 'run.expect("activation").is_formed()',
        },
        "conformance_tests/meta_tests/spec/test_ffn.py": {
            "FILL IN: the derivation of a value, by hand.": "From −3, 0, 2: max(0, ·) is 0, 0, 2, its squares 0, 0, 4.",
            'raise AssertionError("FILL IN: compare ffn.relu_squared with the value derived by hand")': (
                "from encoder_spec.ffn import relu_squared\n\n"
                "    same(relu_squared(tensor([-3, 0, 2])), tensor([0, 0, 4]))"
            ),
        },
    }


def tree_in(folder: Path) -> Path:
    """Copy everything that a scaffold reads and writes."""
    return copied(folder, "docs/chapters", "pyproject.toml")


def holes(tree: Path) -> list[str]:
    """Return what traceability misses in a tree."""
    done = python(tree, "-m", "conformance_tests", "traceability")
    found = re.findall(r"^HOLE (.*)$", done.stdout, re.MULTILINE)
    assert done.returncode == bool(found), done.stderr[-2000:]
    assert done.stdout.rstrip().endswith(f" {len(found)} holes")
    return found


def of_the_new_equation(tree: Path) -> tuple[list[str], str]:
    """Return which tests of the new equation fail in a tree, and pytest's last line."""
    files = [f"conformance_tests/meta_tests/spec/test_{name}.py" for name in ("ffn", "oracles")]
    done = python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "relu_squared", *files)
    return sorted(re.findall(r"^FAILED .*?::(\w+)", done.stdout, re.MULTILINE)), done.stdout.splitlines()[-1]


def faults_of_lint(tree: Path) -> str:
    """Return what ruff says about the folders that scaffolds write into."""
    folders = ("encoder_spec", "conformance_tests/deviations", "conformance_tests/meta_tests/spec")
    commands = (("check",), ("format", "--check"))
    done = [python(tree, "-m", "ruff", *command, "--no-cache", *folders) for command in commands]
    return "".join(one.stdout[-2000:] + one.stderr for one in done if one.returncode)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree into which one scaffold of each kind was written."""
    tree = tree_in(tmp_path_factory.mktemp("written"))
    program = f"""
from conformance_tests.frontends.command_line import main
for arguments in {list(HALVES)}:
    main(arguments, standalone_mode=False)
"""
    told = "\n".join(printed(tree, program))
    assert all(f"wrote {path}" in told for paths in HALVES.values() for path in paths)
    return tree


def test_scaffolds_stand_where_they_belong_and_are_no_contributions_yet(written: Path) -> None:
    """Every mark is a hole, in the files of the page Contribute and in no others; `make lint` likes their layout."""
    found = holes(written)
    assert [hole for hole in found if FILL_IN not in hole] == []
    assert {hole.partition(":")[0] for hole in found} == {path for paths in HALVES.values() for path in paths}
    assert faults_of_lint(written) == ""


def test_an_equation_fails_its_tests_until_it_is_filled_in(written: Path, tmp_path: Path) -> None:
    """At first the demonstration fails by assertion, and the oracle raises.

    With each mark replaced by what belongs there, the tests pass and no hole of the equation is left.
    """
    assert of_the_new_equation(written)[0] == [
        "test_relu_squared_is_the_one_derived_by_hand",
        "test_the_gradient_equals_the_difference_quotient_of_the_oracle",
        "test_the_implementation_equals_the_oracle",
    ]
    tree = tmp_path / "filled"
    shutil.copytree(written, tree)
    for path, by_mark in by_hand(scaffold.next_requirement(equations()["ffn.relu"])).items():
        text = (tree / path).read_text(encoding="utf-8")
        for mark, by_contributor in by_mark.items():
            assert text.count(mark) == 1, mark
            text = text.replace(mark, by_contributor)
        (tree / path).write_text(text, encoding="utf-8")
    failed, summary = of_the_new_equation(tree)
    assert (failed, summary.split(" passed")[0]) == ([], "4")
    others = {path for arguments, paths in HALVES.items() if arguments != EQUATION for path in paths}
    assert {hole.partition(":")[0] for hole in holes(tree)} == others


def test_the_card_of_a_new_equation_stands_below_the_last_of_its_slot(written: Path) -> None:
    """Nothing else of the chapter changes."""
    before = (ROOT / "docs/chapters/ffn.md").read_text(encoding="utf-8")
    after = (written / "docs/chapters/ffn.md").read_text(encoding="utf-8")
    cards = [f"[[{e.id}]]\n" for e in variants("activation").values()]
    last = max((card for card in cards if card in before), key=before.index)
    assert after == before.replace(last, f"{last}\n[[ffn.relu_squared]]\n")


def test_a_profile_is_its_base_with_what_was_set(written: Path) -> None:
    """Numbers become numbers, a constant of one place is set there alone; without choices a comment asks for them."""
    program = """
from encoder_spec.profiles import PROFILES
for new, base in (("primer", "vaswani-2017"), ("primer-2", "bert")):
    print(sorted(set(PROFILES[new].choices().items()) ^ set(PROFILES[base].choices().items())))
"""
    set_here = "[('activation', 'gelu'), ('activation', 'relu'), ('norm_final.eps', 0.001)]"
    assert printed(written, program) == [set_here, "[]"]
    source = (written / "encoder_spec/profiles.py").read_text(encoding="utf-8")
    assert source.count("    # FILL IN: what differs from bert, such as activation or eps\n") == 1


def test_every_topic_and_slot_has_its_place(tmp_path: Path) -> None:
    """One program writes an equation per topic and a deviation per slot, and a second one imports them all."""
    tree = tree_in(tmp_path)
    program = """
from conformance_tests.frontends.scaffold import new_deviation, new_equation
from encoder_spec.equation import equations, slots, variants
first = {}
for e in equations().values():
    first.setdefault(e.topic, e.slot)
for topic, slot in first.items():
    new_equation(f"{topic}.written_by_nobody", slot)
for slot in slots():
    new_deviation(f"{slot.replace('_', '-')}-misread-by-nobody", [next(iter(variants(slot).values())).id], ["ENC-2"])
"""
    assert printed(tree, program) == []
    program = """
from conformance_tests.deviations import deviations
from encoder_spec.equation import equations
print(len([id for id in deviations() if id.endswith("-misread-by-nobody")]))
print(*sorted(id.partition(".")[0] for id in equations() if id.endswith(".written_by_nobody")))
"""
    slots = {e.slot for e in equations().values()}
    assert printed(tree, program) == [str(len(slots)), " ".join(sorted(TOPICS))]
    assert faults_of_lint(tree) == ""
