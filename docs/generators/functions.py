"""The expressions of every profile as a script: what the calculator of the page of sizes evaluates."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import sympy
from sympy import Expr

from encoder_spec.profiles import PROFILES
from generators.calculator import PRESETS, account, cells


@dataclass
class Functions:
    """Expressions as JavaScript functions of the sizes, each written once."""

    sources: dict[str, int] = field(default_factory=dict)

    def place(self, expression: Expr) -> int:
        """The index of an expression's function."""
        letters = ", ".join(sorted(str(letter) for letter in expression.free_symbols))
        return self.sources.setdefault(f"({{{letters}}}) => {sympy.jscode(expression)}", len(self.sources))

    def places(self, expressions: Iterable[Expr]) -> list[int]:
        """The indices of several."""
        return [self.place(e) for e in expressions]


def script() -> str:
    """The expressions of every profile as a script that runs from a file as well."""
    functions = Functions()
    profiles = {}
    for name, chosen in PROFILES.items():
        found = account(chosen)
        profiles[name] = {
            "letters": found.letters,
            "totals": {key: functions.place(e) for key, e in found.totals.items()},
            "steps": [
                cells(step)
                | {
                    "axes": [functions.places(shape) for shape in step.shapes],
                    "parameters": functions.place(step.parameters),
                    "flops": functions.place(step.flops),
                }
                for step in found.steps
            ],
        }
    presets = {name: {"profile": p.profile, "sizes": p.sizes} for name, p in PRESETS.items()}
    lines = ",\n".join(functions.sources)
    return "\n".join(
        [
            '"use strict";',
            "// Written by docs/generators/functions.py from the expressions of the specification.",
            f"const FUNCTIONS = [\n{lines}];",
            f"const ENCODERS = {json.dumps(profiles, ensure_ascii=False)};",
            f"const PRESETS = {json.dumps(presets)};",
            "",
        ]
    )
