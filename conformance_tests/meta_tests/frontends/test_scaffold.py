"""Scaffolds for contributors: they stand where they belong, import, do not pass as done, and can be filled in."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import encoder_spec
from conformance_tests.frontends import scaffold
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.tree import ROOT, copied, printed, python
from conformance_tests.quality.traceability import FILL_IN
from encoder_spec.equation import REQUIREMENTS, TOPICS, Requirement, equations, requirements, variants
from encoder_spec.notation import SpecificationError

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


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("equation ffn.gelu --slot activation", "equation ffn.gelu exists already"),
        ("equation ffn.gated_affine --slot ffn", "slot ffn has a variant gated-affine already"),
        ("equation ffn.tensor --slot round", "there is no slot 'round'"),
        (
            "equation norm.mish --slot activation",
            "activation belongs to the topic ffn: call the equation ffn.mish",
        ),
        ("equation ffn.Mish --slot activation", "an equation's id is its topic and a name in snake case"),
        ("equation ffn.lambda --slot activation", "an equation's id is its topic and a name in snake case"),
        ("equation ffn.math --slot activation", "math means something in encoder_spec.ffn already"),
        ("deviation activation-missing --of ffn.relu --noticed-by FFN-1", "deviation activation-missing exists"),
        ("deviation capped --of ffn.relux --noticed-by FFN-1", "there is no equation 'ffn.relux'"),
        ("deviation cap-1 --of ffn.relu --noticed-by FFN-77", "there is no requirement 'FFN-77'"),
        (
            "deviation cap-1 --of ffn.relu --of norm.layer_norm --noticed-by FFN-1",
            "the equations ffn.relu, norm.layer_norm fill",
        ),
        ("deviation Cap_1 --of ffn.relu --noticed-by FFN-1", "a deviation's id is words with hyphens"),
        ("profile bert", "profile bert exists already"),
        ("profile new --base gpt", "there is no profile 'gpt'"),
        ("profile new --set activation=bump", "slot activation has no variant 'bump'"),
        ("profile new --set activation", "'activation' is not written SLOT=VARIANT"),
        (
            "profile new --set input=given --set projections=affine --set output=affine --set eps=1e-5",
            "torch-post-ln is",
        ),
        ("profile vaswani--2017", "a profile's id is words with"),
        ("profile constants", "CONSTANTS means something in encoder_spec.profiles already"),
        ("equation ffn.mish", "Missing option '--slot'"),
    ],
)
def test_what_is_taken_or_unknown_is_refused_in_one_line(
    arguments: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 2, one line, and no file is touched."""
    monkeypatch.setattr(scaffold, "write", lambda *_: pytest.fail("a file was written"))
    result = CliRunner().invoke(main, ["new", *arguments.split()])
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", HALVES, ids=lambda arguments: arguments[1])
def test_outside_a_checkout_one_line_says_so(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel lies in a folder without pyproject.toml."""
    monkeypatch.setattr(encoder_spec, "__file__", str(tmp_path / "encoder_spec" / "__init__.py"))
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    expected = f"Error: encoder-spec new writes into a checkout of the repository, but the packages lie in {tmp_path}\n"
    assert result.stderr == expected


@pytest.mark.parametrize(
    ("equation", "series"),
    [("ffn.relu", "FFN"), ("attention.mask", "MASK"), ("attention.scores", "ATT"), ("norm.layer_norm", "NORM")],
)
def test_the_next_number_follows_the_largest_of_the_series(
    equation: str, series: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 300 comes 301, whatever is missing before; 901 is an example's and does not count."""
    requirements()
    for number in (300, 901):
        monkeypatch.setitem(
            REQUIREMENTS, f"{series}-{number}", Requirement(f"{series}-{number}", equation, "It holds.")
        )
    assert scaffold.next_requirement(equations()[equation]) == f"{series}-301"


@pytest.mark.parametrize(
    ("equation", "module"),
    [("ffn.relu", "activations"), ("attention.weights", "weights"), ("ffn.gated", "gates"), ("layer.pre_ln", "pre_ln")],
)
def test_a_deviation_stands_beside_those_of_the_same_equation(equation: str, module: str) -> None:
    """Some topics have several files of deviations."""
    assert scaffold.home_of_deviations(equations()[equation]).__name__ == f"conformance_tests.deviations.{module}"


def test_nothing_is_written_if_one_edit_fails(tmp_path: Path) -> None:
    """The first file stays as it was, because the second would not parse."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    edits = {"a.py": lambda text: text + "y = 2\n", "b.py": lambda text: text + "y = = 2\n"}
    with pytest.raises(SyntaxError):
        scaffold.write(tmp_path, edits)
    assert [(tmp_path / name).read_text() for name in ("a.py", "b.py")] == ["x = 1\n"] * 2


def test_a_missing_import_is_added_and_one_that_is_there_is_not() -> None:
    """Below the last import, before the code."""
    text = "import torch\nfrom torch import Tensor\n\nx = 1\n"
    added = scaffold.with_imports(text, ["from torch import Tensor", "from jaxtyping import Float"])
    assert added == "import torch\nfrom torch import Tensor\nfrom jaxtyping import Float\n\nx = 1\n"


def test_a_slot_that_nobody_knows_is_refused_before_anything_is_imported() -> None:
    """The message names all slots."""
    with pytest.raises(SpecificationError, match="choose among activation") as refused:
        scaffold.new_equation("ffn.mish", "bend")
    assert all(slot in str(refused.value) for slot in {e.slot for e in variants("norm").values()})
