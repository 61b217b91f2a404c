"""Lists of what the specification holds, as they are printed where there is no terminal.

They are compared without their order, which in this process depends on what was imported first: ``test_catalogue``
holds the order.
"""

import inspect
import re
import textwrap

import pytest
from click.testing import CliRunner

from conformance_tests.deviations import deviations
from conformance_tests.frontends import catalogue, listing
from conformance_tests.frontends.command_line import main
from conformance_tests.harness.checks import registry
from conformance_tests.quality import kill_matrix, kills, traceability
from conformance_tests.targets.builtin import BUILTIN, Builtin
from encoder_spec.cost import report
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import TOPICS, Equation, equations, requirements
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import PROFILES


def printed(*arguments: str, status: int = 0) -> list[str]:
    """The lines that a command prints on a wide screen, without the spaces at their ends."""
    result = CliRunner().invoke(main, arguments, env={"COLUMNS": "999"})
    assert (result.exit_code, result.stderr) == (status, ""), result.output
    return [line.rstrip() for line in result.stdout.splitlines() if line.strip()]


def table(*arguments: str, status: int = 0) -> list[list[str]]:
    """The cells of the table that a command prints: its header and its rows, without the rule between them."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed(*arguments, status=status)]
    assert set(lines[1][0]) == {"─"}
    return [lines[0], *lines[2:]]


# Lists ---------------------------------------------------------------------------------


def test_all_equations_are_listed() -> None:
    header, *rows = table("equations")
    assert header == ["equation", "slot", "variant", "what it is"]
    assert sorted(rows) == sorted([e.id, e.slot, e.variant, e.title] for e in equations().values())


def test_all_requirements_are_listed_with_the_evidence_that_decides_them() -> None:
    """A requirement without a check is shown on the specification itself."""
    header, *rows = table("requirements")
    assert header == ["requirement", "equation", "evidence", "statement"]
    by_id = {row[0]: row[1:3] for row in rows}
    levels = {id: str(c.level) for c in registry().checks.values() for id in c.requirements}
    assert by_id == {r.id: [r.equation, levels.get(r.id, "on the specification")] for r in requirements().values()}
    assert by_id["ATT-3"] == ["attention.scores", "trace"]
    assert by_id["ATT-4"] == ["attention.scores", "on the specification"]


def test_all_deviations_are_listed_with_what_notices_them() -> None:
    header, *rows = table("deviations")
    assert header == ["deviation", "slot", "noticed by", "what it computes"]
    wanted = sorted([d.id, d.slot, " ".join(d.noticed_by)] for d in deviations().values())
    assert sorted(row[:3] for row in rows) == wanted


def test_all_profiles_are_listed_with_their_differences_from_the_first() -> None:
    header, *lines = table("profiles")
    rows = [line for line in lines if len(line) > 1]  # the end of a long row stands in a line alone
    assert header == ["profile", "source", "differs from vaswani-2017 in"]
    assert [row[0] for row in rows] == list(PROFILES)
    differences = {row[0]: row[-1] for row in rows}
    assert differences["vaswani-2017"] == "the choice that the others are compared with"
    assert differences["torch-post-ln"].split(", ")[0] == "input=given"
    assert "layer=pre-ln" in differences["torch-pre-ln"].split(", ")


def test_built_in_encoders_are_listed_with_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILTIN, "odd", Builtin("not here", lambda: None, ("torch", "nobodys_a", "nobodys_b")))
    header, *rows = table("encoders")
    assert header == ["target", "runs here", "what it is"]
    assert [row[0] for row in rows] == list(BUILTIN)
    assert rows[0] == ["torch-post-ln", "yes", BUILTIN["torch-post-ln"].description]
    assert rows[-1] == ["odd", "no: needs nobodys_a, nobodys_b", "not here"]


# One of them ---------------------------------------------------------------------------


def test_an_equation_is_shown_with_formula_code_letters_and_requirements() -> None:
    """The code is that of the function, without its docstring and decorators."""
    e = equations()["norm.layer_norm"]
    lines = printed("equations", e.id)
    assert lines[:2] == [f"{e.id}  {e.title}", f"slot norm = layer-norm · {e.source}"]
    formula = [f"    {line}".rstrip() for line in e.latex.splitlines() if line.strip()]
    assert lines[2 : 2 + len(formula)] == formula
    below = lines[2 + len(formula) :]
    assert below[:2] == ["    gamma: (d_model)", "    beta: (d_model)"]
    assert below[2].startswith("    d_model: ")
    code = listing.implementation("encoder_spec/norm.py::layer_norm").splitlines()
    assert below[3 : 3 + len(code)] == [line.rstrip() for line in code if line.strip()]
    own = [f"{r.id}  {r.statement}" for r in requirements().values() if r.equation == e.id]
    assert below[-len(own) :] == own
    assert below[3 + len(code) : -len(own)] == list(e.notes)


def test_the_code_of_an_equation_is_its_body() -> None:
    assert listing.implementation("encoder_spec/attention.py::scores") == (
        "def scores(Q: Float[Tensor, 'B h n d_k'], K: Float[Tensor, 'B h n d_k']) -> Float[Tensor, 'B h n n']:\n"
        "    return Q @ K.mT / math.sqrt(Q.shape[-1])"
    )


def test_the_code_of_a_function_without_docstring_is_whole() -> None:
    """The four that `input_with` makes have none; their first statement embeds the tokens."""
    code = listing.implementation("conformance_tests/deviations/embedding.py::input_with.embedded").splitlines()
    assert code[1].startswith("    E = token_activation(")
    assert "    E = token_activation(token_norm(embedding(tokens)))" in printed("deviations", "position-subtracted")


@pytest.mark.parametrize("topic", TOPICS)
def test_code_at_a_place_is_the_code_that_python_has(topic: str) -> None:
    """That of every equation, deviation and check of a topic, decorators and docstring included."""
    functions = [
        *(e.function for e in equations().values() if e.topic == topic),
        *(
            wrong.function
            for d in deviations().values()
            for wrong in d.replaces.values()
            if isinstance(wrong, Equation) and d.of[0].partition(".")[0] == topic
        ),
        *(c.function for c in registry().checks.values() if c.name.startswith(f"test_{topic}::")),
    ]
    assert len(functions) > 5
    for function in functions:
        code = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        assert listing.source(catalogue.place(function)) == code


def test_a_requirement_is_shown_with_the_checks_that_decide_it() -> None:
    """In small letters too. One that is proved says so; one without a check has no more to show."""
    lines = printed("requirements", "att-3")
    assert lines[:2] == [f"ATT-3  {requirements()['ATT-3'].statement}", "equation attention.scores"]
    assert lines[2] == "decided by test_attention::test_scores_have_the_scale_of_their_variant (trace)"
    assert lines[3] == '@decides("ATT-3", "ATT-5", "ATT-23", "ATT-24", level="trace")'
    proved = next(r for r in requirements().values() if r.algebraic)
    assert printed("requirements", proved.id)[1] == f"equation {proved.equation} · proved with SymPy"


def test_a_deviation_is_shown_with_its_code_or_its_number() -> None:
    """And where it was seen, if anywhere."""
    number = deviations()["norm-eps-1e-05"]
    assert printed("deviations", number.id) == [
        f"{number.id}  {number.definition}",
        f"mistaken for {', '.join(number.of)} · noticed by {', '.join(number.noticed_by)}",
        "    eps = 1e-05",
        f"seen in {', '.join(number.evidence)}",
    ]
    wrong = next(d for d in deviations().values() if d.id == "scores-scaled-by-d-model")
    lines = printed("deviations", wrong.id)
    assert lines[2].startswith("def ")
    assert any(line.startswith("    return ") for line in lines)
    unseen = next(d for d in deviations().values() if not d.evidence)
    assert not any(line.startswith("seen in") for line in printed("deviations", unseen.id))


def test_the_matrix_of_a_deviation_has_what_notices_it_in_each_profile() -> None:
    """Where it is diagnosed and where it is only noticed, each profile once; without an id, all deviations."""
    id = "norm-eps-1e-05"
    header, *rows = table("deviations", id, "--matrix")
    assert header == ["deviation", "in profile", "judged as", "verdict", "failing", "departs at", "diagnosis"]
    diagnosed = [r for r in kill_matrix.on_file() if r.deviation == id]
    alone = [within for within in kills.on_file()[id] if within not in {r.within for r in diagnosed}]
    assert [row[1] for row in rows] == [*(r.within for r in diagnosed), *alone]
    assert rows[0] == [id, "vaswani-2017", "vaswani-2017", "nonconformant", "ENC-2 NORM-3", "norm.layer_norm", id]
    assert rows[-1][1:] == [alone[-1], alone[-1], "nonconformant", "NORM-3"]
    assert {row[0] for row in rows} == {id}
    assert {row[0] for row in table("deviations", "--matrix")[1:]} == {
        r.deviation for r in kill_matrix.on_file()
    } | set(kills.on_file())


def test_a_profile_is_shown_with_its_choice_for_each_slot() -> None:
    first, *rest = printed("profiles", "bert")
    assert first == f"bert  {PROFILES['bert'].source}"
    choices = [re.split(r"\s{2,}", line.strip()) for line in rest]
    assert choices[0] == ["slot or constant", "choice"]
    assert choices[2:-1] == [[name, str(choice)] for name, choice in PROFILES["bert"].choices().items()]
    assert rest[-1] == "its base model: d_model=768, h=12, d_ff=3072, N=12, V=30522, max_len=512, segments=2"


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("equations", "attention.score", r"there is no equation 'attention.score'\. Did you mean attention\.scores"),
        ("requirements", "zzz", r"there is no requirement 'zzz'; `encoder-spec requirements` lists them$"),
    ],
)
def test_an_unknown_name_is_answered_with_those_that_come_closest(kind: str, name: str, hint: str) -> None:
    known = {"equations": list(equations()), "requirements": list(requirements())}[kind]
    assert listing.choose(kind, known[0], known) == known[0]
    with pytest.raises(SpecificationError, match=hint):
        listing.choose(kind, name, known)


# Numbers -------------------------------------------------------------------------------


def test_an_encoder_is_counted_in_formulas_and_numbers() -> None:
    """Four maps 8 × 8 with biases of 8: 4 · (64 + 8) = 288. Without sizes it is the encoder of 2017, reading 128."""
    sizes = [word for size in ("d_model=8", "h=2", "n=3", "B=5") for word in ("--set", size)]
    lines = printed("count", "--profile", "torch-post-ln", *sizes)
    assert lines[0].startswith("torch-post-ln  ")
    assert {"d_model=8", "h=2", "n=3", "B=5"} <= set(lines[0].replace(",", "").split())
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[1:]]
    assert rows[0] == ["quantity", "part", "formula", "number"]
    assert all(re.fullmatch(r"[\d,]+", row[-1]) for row in rows[2:])
    assert rows[2] == ["parameters", "attention", "4·d_model² + 4·d_model", "288"]
    default = printed("count")[0]
    assert {"n=128", "B=1", "d_model=512"} <= set(default.replace(",", "").split())


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("0", 0),
        ("4·d_model² + 4·d_model", 4 * 49 + 4 * 7),
        ("d_ff - 2·d_model", -3),
        ("2·d_ff·d_model/(h·(d_k + d_v))", 2 * 11 * 7 / 32),
        ("1/3 + n/6", 1),
        ("3/2", 1.5),
        ("n¹⁰", 1_048_576),
        ("B³", (10**9 + 7) ** 3),
    ],
)
def test_the_value_of_a_formula_is_exact(formula: str, value: float) -> None:
    """Of 154/32 = 4.8125 nothing is lost, thirds and sixths add up to a whole, and no size is too large."""
    sizes = {"d_model": 7, "d_ff": 11, "h": 2, "d_k": 3, "d_v": 13, "n": 4, "B": 10**9 + 7}
    found = listing.value(formula, sizes)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("name", PROFILES)
def test_numbers_are_those_that_sympy_computes(name: str) -> None:
    """In customary widths of the heads and in others, of which one crossover is no whole number."""
    of_groups = {"d_group": 1} if "d_group" in PROFILES[name].sizes else {}
    for sizes in ({}, {"d_model": 60, "h": 4, "N": 3}, {"d_model": 13, "h": 3, "d_k": 5, "d_v": 7, "d_ff": 11}):
        sizes = sizes | of_groups if sizes else {}
        dimensions = Dimensions().replace(**{**PROFILES[name].sizes, **sizes})
        words = [word for letter, size in {**sizes, "n": 17, "B": 2}.items() for word in ("--set", f"{letter}={size}")]
        rows = [re.split(r"\s{2,}", line.strip()) for line in printed("count", "--profile", name, *words)[3:]]
        wanted = report(PROFILES[name], dimensions, n=17, B=2)
        assert rows == [[r.quantity, r.part, r.text, f"{r.number:,}"] for r in wanted]


@pytest.mark.parametrize(
    ("text", "size"),
    [("d_model=1024", ("d_model", 1024)), ("n=1", ("n", 1)), ("B=8", ("B", 8)), ("num_heads=3", ("h", 3))],
)
def test_a_size_is_a_letter_or_its_word_and_a_positive_number(text: str, size: tuple[str, int]) -> None:
    assert listing.setting(text) == size


@pytest.mark.parametrize("text", ["n", "n=", "n=0", "n=-1", "n=1.5", "n=x", "x=1", "=1"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SpecificationError, match=rf"--set {re.escape(text)}: write NAME=NUMBER .* d_model, .*, n, B$"):
        listing.setting(text)


# Traceability --------------------------------------------------------------------------


@pytest.mark.parametrize("holes", [[], ["a.b: no oracle", "c: [nothing]"]])
def test_holes_stand_below_the_table_and_decide_the_status(holes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each, and their number in the last one."""
    monkeypatch.setattr(traceability, "holes", lambda: holes)
    lines = printed("traceability", status=1 if holes else 0)
    assert [line for line in lines if line.startswith("HOLE")] == [f"HOLE {hole}" for hole in holes]
    of_each = f"{len(equations())} equations, {len(requirements())} requirements, {len(holes)} holes"
    assert lines[-1] == of_each
    cells = {row[0]: row[1:] for row in (re.split(r"\s{2,}", line.strip()) for line in lines[2:])}
    assert set(equations()) <= set(cells)
    row = next(r for r in traceability.rows() if r.equation.id == "attention.scores")
    numbers = [str(len(row.checks)), str(len(row.demonstrations))]
    oracle, required, *proofs_and_numbers = cells["attention.scores"]
    assert (oracle, required) == ("oracle.attention.scores", "ATT-3 ATT-4")
    assert proofs_and_numbers == [*([" ".join(row.proofs)] if row.proofs else []), *numbers]
