"""What scaffolds refuse, and what they would write; that it works is shown in copies of the tree by `test_scaffold`."""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

import encoder_spec
from conformance_tests.deviations import deviations
from conformance_tests.frontends import scaffold
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.tree import ROOT
from conformance_tests.quality.traceability import FILL_IN
from encoder_spec.equation import REQUIREMENTS, Requirement, equations, requirements, variants
from encoder_spec.notation import SpecificationError

COMMANDS = (
    ("new", "equation", "ffn.relu_squared", "--slot", "activation"),
    ("new", "deviation", "activation-capped-at-1", "--of", "ffn.relu", "--noticed-by", "FFN-1"),
    ("new", "profile", "primer", "--set", "activation=gelu"),
)


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


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[1])
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


def test_without_a_deviation_of_the_equation_its_slot_decides_and_then_its_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most of them, where they stand in several files."""
    catalogue = deviations()
    kept = {id: d for id, d in catalogue.items() if "ffn.relu" not in d.of}
    monkeypatch.setattr(scaffold, "deviations", lambda: kept)
    relu = equations()["ffn.relu"]
    others = [d for d in kept.values() if d.slot == "activation"]
    assert others
    assert scaffold.home_of_deviations(relu).__name__ == "conformance_tests.deviations.activations"
    kept = {id: d for id, d in kept.items() if d.slot != "activation"}
    assert scaffold.home_of_deviations(relu).__name__ == "conformance_tests.deviations.ffn"


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


# What would be written -----------------------------------------------------------------


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The lines that scaffolds would have added, by file; nothing may be taken away, and files of Python parse."""
    lines: dict[str, list[str]] = {}

    def write(root: Path, edits: Mapping[str, Callable[[str], str]]) -> None:
        assert root == ROOT
        for path, edit in edits.items():
            before = (root / path).read_text(encoding="utf-8")
            after = edit(before)
            assert not path.endswith(".py") or ast.parse(after)
            left = iter(after.splitlines())
            new: list[str] = []
            for line in before.rstrip().splitlines():
                new += iter(left.__next__, line)
            lines[path] = [*new, *left]

    monkeypatch.setattr(scaffold, "write", write)
    return lines


def without_empty(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def test_an_equation_has_five_halves(added: dict[str, list[str]]) -> None:
    """Each has the signature of the slot's first equation, and is marked where a person has to write."""
    number = scaffold.next_requirement(equations()["ffn.relu"])
    told = scaffold.new_equation("ffn.relu_squared", "activation")
    *files, chapter = added
    assert files == [
        "encoder_spec/ffn.py",
        "encoder_spec/oracle/ffn.py",
        "conformance_tests/test_ffn.py",
        "conformance_tests/meta_tests/spec/test_ffn.py",
    ]
    assert all(FILL_IN in "\n".join(added[file]) for file in files)
    code, oracle, check, shown = (without_empty(added[file]) for file in files)
    model = equations()["ffn.relu"]
    assert code[0] == f'@requirement("{number}", "{FILL_IN}: what holds for every input, in one sentence.")'
    assert code[1:3] == [
        '@equation("ffn.relu_squared", slot="activation")',
        scaffold.signature(model.function, "relu_squared"),
    ]
    assert oracle[0] == scaffold.signature(model.oracle, "relu_squared")
    assert check[:2] == [
        f'@decides("{number}", level="trace")',
        "def test_relu_squared_is_what_the_encoder_computes(run: Run) -> None:",
    ]
    assert shown[:2] == [f'@shows("{number}")', "def test_relu_squared_is_the_one_derived_by_hand() -> None:"]
    assert (chapter, without_empty(added[chapter])) == ("docs/chapters/ffn.md", ["[[ffn.relu_squared]]"])
    assert told == [
        *(f"wrote {path}" for path in added),
        f"Fill in what is marked {FILL_IN} and state {number}; `encoder-spec traceability` lists what is left.",
        "Then name a way to get it wrong: "
        f"`encoder-spec new deviation ID --of ffn.relu_squared --noticed-by {number}`.",
        "`make catalogue` puts it into the lists; `make test`, `make lint`, `make docs` and `make mutants` must pass.",
    ]


@pytest.mark.parametrize(
    ("of", "noticed_by", "written"),
    [
        (["ffn.relu"], ["FFN-1"], '"ffn.relu", "FFN-1"'),
        (["ffn.relu", "ffn.gelu"], ["FFN-1", "FFN-2"], '("ffn.relu", "ffn.gelu"), ("FFN-1", "FFN-2")'),
    ],
)
def test_a_deviation_has_the_signature_of_what_it_is_mistaken_for(
    of: list[str], noticed_by: list[str], written: str, added: dict[str, list[str]]
) -> None:
    """And the imports of its annotations."""
    told = scaffold.new_deviation("activation-capped-at-1", of, noticed_by)
    (file,) = added
    assert file == "conformance_tests/deviations/activations.py"
    imported, first, second, *_ = without_empty(added[file])
    assert imported == "from jaxtyping import Float"
    evidence = f'evidence="{FILL_IN}: owner/repository#number"'
    assert first == f'@deviation("activation-capped-at-1", {written}, {evidence})'
    assert second == scaffold.signature(equations()["ffn.relu"].function, "activation_capped_at_1")
    assert told[0] == f"wrote {file}"
    assert told[-1].startswith("`encoder-spec deviations activation-capped-at-1 --matrix`")


def test_a_name_that_the_module_of_deviations_uses_is_refused(
    added: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id with hyphens becomes the name of a function, and must not hide another one."""
    module = scaffold.home_of_deviations(equations()["ffn.relu"])
    monkeypatch.setattr(module, "helps_others", None, raising=False)
    with pytest.raises(SpecificationError, match=f"helps_others means something in {module.__name__} already"):
        scaffold.new_deviation("helps-others", ["ffn.relu"], ["FFN-1"])
    assert added == {}


def test_a_profile_is_written_as_what_differs(added: dict[str, list[str]]) -> None:
    """Numbers as numbers; a constant of one place is no word of Python. Without choices a comment asks for them."""
    scaffold.new_profile("primer-2", "bert", {"activation": "relu", "eps": "1e-3", "norm_final.eps": "2"})
    assert without_empty(added["encoder_spec/profiles.py"]) == [
        "PRIMER_2 = BERT.replace(",
        '    name="primer-2",',
        f'    source="{FILL_IN}: authors, year and section",',
        "    activation='relu',",
        "    eps=0.001,",
        "    **{'norm_final.eps': 2},",
        ")",
        "        PRIMER_2,",
    ]
    scaffold.new_profile("primer-3", "bert", {})
    assert f"    # {FILL_IN}: what differs from bert, such as activation or eps" in added["encoder_spec/profiles.py"]


@pytest.mark.parametrize(
    ("choice", "read"), [("3", 3), ("-1", -1), ("1e-3", 0.001), ("0.5", 0.5), ("gelu", "gelu"), ("1x", "1x")]
)
def test_a_choice_is_a_number_where_it_can_be(choice: str, read: float | str) -> None:
    assert scaffold.number_or_word(choice) == read
    assert type(scaffold.number_or_word(choice)) is type(read)


def test_a_card_stands_below_the_last_of_its_slot_or_at_the_end() -> None:
    edit = scaffold.card_after(["[[a]]", "[[b]]"], "[[new]]")
    assert edit("One.\n\n[[b]]\n\n[[a]]\n\nTwo.\n") == "One.\n\n[[b]]\n\n[[a]]\n\n[[new]]\n\nTwo.\n"
    assert edit("One.\n\nTwo.\n\n") == "One.\n\nTwo.\n\n[[new]]\n"


def test_a_block_is_added_behind_two_empty_lines() -> None:
    assert scaffold.appended("\n    x = 2\n        y\n  ")("x = 1\n\n") == "x = 1\n\n\nx = 2\n    y\n"


def test_the_table_of_profiles_gets_one_more_name() -> None:
    """Its definition stands above the table; other tables are left alone."""
    text = "A = 1\nothers = {p: p for p in (A,)}\nPROFILES = {\n    p: p\n    for p in (\n        A,\n    )\n}\nB = 2\n"
    assert scaffold.with_profile(text, "NEW", "NEW = 3") == text.replace("PROFILES", "NEW = 3\n\nPROFILES").replace(
        "        A,\n", "        A,\n        NEW,\n"
    )


@pytest.mark.parametrize(("name", "free"), [("relu_cubed", True), ("relu", False), ("len", False), ("math", False)])
def test_a_name_is_free_if_neither_the_module_nor_python_has_it(name: str, free: bool) -> None:
    if free:
        scaffold.demand_free(name, encoder_spec.ffn)
    else:
        with pytest.raises(SpecificationError, match=f"{name} means something in encoder_spec.ffn already"):
            scaffold.demand_free(name, encoder_spec.ffn)


def test_files_are_written_and_those_of_python_laid_out(tmp_path: Path) -> None:
    """Where ruff is installed: imports in order, quotes and spaces as everywhere; other files stay as they are."""
    pytest.importorskip("ruff")
    for name in ("a.py", "b.md"):
        (tmp_path / name).write_text("x = 1\n")
    scaffold.write(tmp_path, {name: lambda text: f"{text}y  =  'z'\n" for name in ("a.py", "b.md")})
    assert (tmp_path / "a.py").read_text() == 'x = 1\ny = "z"\n'
    assert (tmp_path / "b.md").read_text() == "x = 1\ny  =  'z'\n"
