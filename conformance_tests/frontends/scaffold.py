"""Scaffolds for contributors: each half that an equation, a deviation or a profile needs, written where it belongs.

What is written imports and is marked ``FILL IN`` where a person has to write. Until then the equations raise,
the demonstrations fail, and ``encoder-spec traceability`` lists each mark.
"""

import ast
import builtins
import importlib
import inspect
import keyword
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import encoder_spec
from conformance_tests.deviations import deviations
from conformance_tests.quality.traceability import FILL_IN
from encoder_spec import profiles as published
from encoder_spec.equation import Equation, equations, requirements, slots, variants
from encoder_spec.notation import demand

EXAMPLES_FROM = 900
"""Numbers of requirements from here on belong to the examples of the page Contribute."""

Edit = Callable[[str], str]


def checkout() -> Path:
    """Return the folder of the repository that these packages are imported from.

    Raises:
        SpecificationError: if they are installed from a wheel, which has no place for contributions.
    """
    root = Path(encoder_spec.__file__).parents[1]
    here = (root / "pyproject.toml").is_file() and (root / "conformance_tests" / "meta_tests").is_dir()
    demand(here, f"encoder-spec new writes into a checkout of the repository, but the packages lie in {root}")
    return root


# What it writes ------------------------------------------------------------------------------


def new_equation(id: str, slot: str) -> list[str]:
    """Write an equation for a slot that exists, its oracle, a requirement, its check and demonstration, and its place.

    The signature is that of the slot's first equation, for both the implementation and the oracle.

    Args:
        id: the topic and a name in snake case, such as ``ffn.relu_squared``.
        slot: the slot that it can fill, such as ``activation``.

    Returns:
        What was written and what to do next, line by line.

    Raises:
        SpecificationError: if the id is taken or malformed, if there is no such slot, or outside a checkout.
    """
    root = checkout()
    model = model_for(id, slot)
    topic, _, name = id.partition(".")
    oracles = importlib.import_module(f"encoder_spec.oracle.{topic}")
    for module in (importlib.import_module(f"encoder_spec.{topic}"), oracles):
        demand_free(name, module)

    number = next_requirement(model)
    mark = f"{FILL_IN}:"
    written = {
        f"encoder_spec/{topic}.py": appended(f'''
            @requirement("{number}", "{mark} what holds for every input, in one sentence.")
            @equation("{id}", slot="{slot}")
            {signature(model.function, name)}
                r"""{mark} its title. {mark} its source, with section and number of the formula.

                $$ {mark} the formula $$

                Undefined: {mark} what the source leaves open, or "nothing".
                """
                raise NotImplementedError("{mark} the formula {id}, on tensors")
        '''),
        f"encoder_spec/oracle/{topic}.py": appended(f'''
            {signature(model.oracle, name)}
                """{mark} the formula in index notation."""
                raise NotImplementedError("{mark} the formula {id} once more, entry by entry, from the paper alone")
        '''),
        f"conformance_tests/test_{topic}.py": appended(f'''
            @decides("{number}", level="trace")
            def test_{name}_is_what_the_encoder_computes(run: Run) -> None:
                """{mark} what is compared with what."""
                raise NotImplementedError("{mark} what decides {number}, often run.expect('{slot}').is_formed()")
        '''),
        f"conformance_tests/meta_tests/spec/test_{topic}.py": appended(f'''
            @shows("{number}")
            def test_{name}_is_the_one_derived_by_hand() -> None:
                """{mark} the derivation of a value, by hand."""
                raise AssertionError("{mark} compare {id} with the value derived by hand")
        '''),
        f"docs/chapters/{topic}.md": card_after([f"[[{e.id}]]" for e in variants(slot).values()], f"[[{id}]]"),
    }
    write(root, written)
    return [
        *(f"wrote {path}" for path in written),
        f"Fill in what is marked {FILL_IN} and state {number}; `encoder-spec traceability` lists what is left.",
        f"Then name a way to get it wrong: `encoder-spec new deviation ID --of {id} --noticed-by {number}`.",
        "`make catalogue` puts it into the lists; `make test`, `make lint`, `make docs` and `make mutants` must pass.",
    ]


def new_deviation(id: str, of: Sequence[str], noticed_by: Sequence[str]) -> list[str]:
    """Write a wrong equation beside those that stand in for the same right one.

    Args:
        id: its name in words, such as ``activation-capped-at-1``.
        of: the ids of the equations that it is mistaken for, all of one slot.
        noticed_by: the ids of the requirements of which one must fail.

    Returns:
        What was written and what to do next, line by line.

    Raises:
        SpecificationError: if an id is taken, malformed or unknown, or outside a checkout.
    """
    root = checkout()
    demand_words(id, "deviation", "activation-capped-at-1")
    demand(id not in deviations(), f"deviation {id} exists already; `encoder-spec deviations {id}` shows it")
    for known, wanted in ((equations(), of), (requirements(), noticed_by)):
        kind = "equation" if known is equations() else "requirement"
        for one in wanted:
            demand(one in known, f"there is no {kind} {one!r}; `encoder-spec {kind}s` lists them")
    mistaken_for = [equations()[one] for one in of]
    shared = {e.slot for e in mistaken_for}
    demand(len(shared) == 1, f"the equations {', '.join(of)} fill several slots: {', '.join(sorted(shared))}")
    module = home_of_deviations(mistaken_for[0])
    name = id.replace("-", "_")
    demand(not keyword.iskeyword(name), f"{id} is a word of Python; choose another id")
    demand_free(name, module)

    mark = f"{FILL_IN}:"
    model = mistaken_for[0].function
    path = f"{module.__name__.replace('.', '/')}.py"
    add = appended(f'''
        @deviation("{id}", {argument(of)}, {argument(noticed_by)}, evidence="{mark} owner/repository#number")
        {signature(model, name)}
            """{mark} what it computes, in one line."""
            raise NotImplementedError("{mark} the wrong computation {id}")
    ''')
    write(root, {path: lambda text: add(with_imports(text, imports_of(model)))})
    return [
        f"wrote {path}",
        f"Fill in what is marked {FILL_IN}; `encoder-spec traceability` lists what is left.",
        "`make catalogue` puts it into the lists.",
        "Then `make matrix` judges it in every profile, and `make resolution` in every precision.",
        f"`encoder-spec deviations {id} --matrix` shows which requirements noticed it.",
    ]


def new_profile(name: str, base: str, choices: Mapping[str, str]) -> list[str]:
    """Write a published choice of equations as what differs from another one.

    Args:
        name: its name, such as ``primer``.
        base: the name of the profile from which it differs.
        choices: the variant or number by slot, place or constant, such as ``activation`` or ``norm_final.eps``.

    Returns:
        What was written and what to do next, line by line.

    Raises:
        SpecificationError: if the name is taken or malformed, if a choice is unknown, or outside a checkout.
    """
    root = checkout()
    demand_words(name, "profile", "primer")
    known = published.PROFILES
    demand(name not in known, f"profile {name} exists already; `encoder-spec profiles {name}` shows it")
    start = published.profile(base)
    typed: dict[str, Any] = {key: number_or_word(choice) for key, choice in choices.items()}
    chosen = start.replace(name=name, **typed).choices()
    same = next((p.name for p in known.values() if typed and p.choices() == chosen), None)
    demand(same is None, f"the profile {same} is this choice already")
    letters = name.replace("-", "_").upper()
    demand_free(letters, published)

    mark = f"{FILL_IN}:"
    plain = [f"{key}={choice!r}," for key, choice in typed.items() if key.isidentifier()]
    dotted = {key: choice for key, choice in typed.items() if not key.isidentifier()}
    lines = [
        f'name="{name}",',
        f'source="{mark} authors, year and section",',
        *(plain if typed else [f"# {mark} what differs from {base}, such as activation or eps"]),
        *([f"**{dotted!r},"] if dotted else []),
    ]
    constant = next(key for key, value in vars(published).items() if value is start)
    definition = "\n".join([f"{letters} = {constant}.replace(", *(f"    {line}" for line in lines), ")"])
    path = "encoder_spec/profiles.py"
    write(root, {path: lambda text: with_profile(text, letters, definition)})
    return [
        f"wrote {path}",
        f"Fill in what is marked {FILL_IN}; `encoder-spec profiles {name}` shows the whole choice.",
        "`make catalogue` puts it into the lists.",
        "Then `make test`, and `make matrix`: every deviation that applies must be noticed in it.",
    ]


# What is free --------------------------------------------------------------------------------


def model_for(id: str, slot: str) -> Equation:
    """Return the equation of a slot that a new one imitates, if the new one may have this id.

    Raises:
        SpecificationError: if the slot does not exist, or the id is malformed, taken or of another topic.
    """
    demand(slot in slots(), f"there is no slot {slot!r}: choose among {', '.join(slots())}")
    model = next(iter(variants(slot).values()))
    topic, _, name = id.partition(".")
    well_formed = bool(re.fullmatch(r"[a-z]+\.[a-z][a-z0-9_]*", id)) and not keyword.iskeyword(name)
    demand(well_formed, f"an equation's id is its topic and a name in snake case, such as ffn.relu_squared; not {id!r}")
    demand(
        topic == model.topic, f"slot {slot} belongs to the topic {model.topic}: call the equation {model.topic}.{name}"
    )
    variant = name.replace("_", "-")
    demand(id not in equations(), f"equation {id} exists already; `encoder-spec equations {id}` shows it")
    demand(variant not in variants(slot), f"slot {slot} has a variant {variant} already")
    return model


def demand_words(id: str, kind: str, example: str) -> None:
    """Refuse an id that is not words with hyphens between them."""
    demand(
        bool(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", id)),
        f"a {kind}'s id is words with hyphens between them, such as {example}; not {id!r}",
    )


def demand_free(name: str, module: ModuleType) -> None:
    """Refuse a name that means something else in a module."""
    free = not hasattr(module, name) and not hasattr(builtins, name)
    demand(free, f"{name} means something in {module.__name__} already; choose another id")


def next_requirement(model: Equation) -> str:
    """Return the number after the largest in the series of an equation's requirements."""
    # An equation without requirements takes the series of its topic.
    own = [r.id for r in requirements().values() if r.equation == model.id]
    topic = [r.id for r in requirements().values() if equations()[r.equation].topic == model.topic]
    series = Counter(id.partition("-")[0] for id in own or topic).most_common(1)[0][0]
    numbers = [int(id.partition("-")[2]) for id in requirements() if id.partition("-")[0] == series]
    return f"{series}-{max(n for n in numbers if n < EXAMPLES_FROM) + 1}"


def home_of_deviations(of: Equation) -> ModuleType:
    """Find the module of most wrong equations of this one, or else of its slot, or else that of its topic."""

    def modules(fits: Callable[[Any], bool]) -> Counter[str]:
        wrong = [e for d in deviations().values() if fits(d) for e in d.replaces.values() if isinstance(e, Equation)]
        return Counter(e.function.__module__ for e in wrong if e.function.__module__.startswith(package))

    package = "conformance_tests.deviations."
    found = modules(lambda d: of.id in d.of) or modules(lambda d: d.slot == of.slot) or Counter([package + of.topic])
    return importlib.import_module(found.most_common(1)[0][0])


# How it is written ---------------------------------------------------------------------------


def number_or_word(choice: str) -> float | str:
    """Read a choice as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(choice)
        except ValueError:
            continue
    return choice


def argument(ids: Sequence[str]) -> str:
    """Write one id as itself and several as a tuple."""
    return f'"{ids[0]}"' if len(ids) == 1 else "(" + ", ".join(f'"{id}"' for id in ids) + ")"


def definition_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """Parse the source of a function."""
    parsed = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(parsed, ast.FunctionDef), f"{function} is defined by no def"
    return parsed


def signature(function: Callable[..., Any], name: str) -> str:
    """Write the first line of a function with the arguments of another one."""
    like = definition_of(function)
    returns = f" -> {ast.unparse(like.returns)}" if like.returns else ""
    # Shapes are written between double quotes everywhere.
    return f"def {name}({ast.unparse(like.args)}){returns}:".replace("'", '"')


def imports_of(function: Callable[..., Any]) -> list[str]:
    """Write the imports of the names in a function's annotations, as its own module has them."""
    like = definition_of(function)
    names = {
        node.id for part in (like.args, like.returns) if part for node in ast.walk(part) if isinstance(node, ast.Name)
    }
    module = inspect.getmodule(function)
    assert module is not None
    found = []
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.ImportFrom):
            found += [f"from {statement.module} import {a.name}" for a in statement.names if a.name in names]
    return found


def with_imports(text: str, wanted: Sequence[str]) -> str:
    """Add those imports that a module lacks, below its last one."""
    body = ast.parse(text).body
    there = [s for s in body if isinstance(s, ast.Import | ast.ImportFrom)]
    bound = {a.asname or a.name for s in there for a in s.names}
    missing = [line for line in wanted if line.rpartition(" ")[2] not in bound]
    lines = text.splitlines()
    last = there[-1].end_lineno or 0
    return "\n".join([*lines[:last], *missing, *lines[last:]]) + "\n"


def appended(block: str) -> Edit:
    """Make the edit that adds a block at the end of a file."""
    return lambda text: f"{text.rstrip()}\n\n\n{dedent(block).strip()}\n"


def card_after(cards: Sequence[str], new: str) -> Edit:
    """Make the edit that places a card below the last one of the same slot in a chapter."""

    def edit(text: str) -> str:
        paragraphs = text.rstrip("\n").split("\n\n")
        places = [i for i, paragraph in enumerate(paragraphs) if paragraph in cards]
        after = max(places, default=len(paragraphs) - 1) + 1
        return "\n\n".join([*paragraphs[:after], new, *paragraphs[after:]]) + "\n"

    return edit


def with_profile(text: str, name: str, definition: str) -> str:
    """Put a profile's definition above the table of all profiles, and its name at the end of the table."""
    table = next(
        s
        for s in ast.parse(text).body
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.DictComp) and ast.unparse(s.targets[0]) == "PROFILES"
    )
    assert isinstance(table.value, ast.DictComp)
    named = table.value.generators[0].iter
    assert isinstance(named, ast.Tuple)
    last = named.elts[-1]
    assert last.end_lineno is not None
    lines = text.splitlines()
    entry = " " * last.col_offset + f"{name},"
    above, below = lines[: table.lineno - 1], lines[table.lineno - 1 :]
    below.insert(last.end_lineno - table.lineno + 1, entry)
    return "\n".join([*above, definition, "", *below]) + "\n"


def write(root: Path, edits: Mapping[str, Edit]) -> None:
    """Edit all files or none, and lay out those of Python as the repository does where ruff is installed."""
    texts = {root / path: edit((root / path).read_text(encoding="utf-8")) for path, edit in edits.items()}
    for path, text in texts.items():
        if path.suffix == ".py":
            ast.parse(text, filename=str(path))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    python = [str(path) for path in texts if path.suffix == ".py"]
    if find_spec("ruff"):
        for command in (("check", "--quiet", "--select=I", "--fix"), ("format", "--quiet")):
            subprocess.run([sys.executable, "-m", "ruff", *command, *python], cwd=root, check=True)
