"""Many seeds: correct encoders judged again and again, and how near they come to a false alarm: ``make seeds``.

A seed makes the encoder's weights, the probes and the weights of the suite. What was found is put on file
beside the site, whose page on precision shows it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conformance_tests.engine.judging import check
from conformance_tests.isolation.calls import in_workers
from conformance_tests.meta_tests.encoders.catalogue import all_tutorials
from conformance_tests.targets.builtin import reference, torch_encoder
from encoder_spec.profiles import PROFILES

FILE = Path(__file__).parents[3] / "docs" / "seeds.json"

Make = Callable[[], Any]

TORCH: dict[str, Make] = {
    "torch, Post-LN": torch_encoder(),
    "torch, Pre-LN": torch_encoder(norm_first=True),
    "torch, GELU": torch_encoder(activation="gelu"),
    "torch, without biases": torch_encoder(bias=False),
    "torch, ε = 1e-12": torch_encoder(layer_norm_eps=1e-12),
}


@dataclass(frozen=True)
class Sweep:
    """One encoder judged with many seeds in one precision.

    Attributes:
        encoder: its name.
        dtype: the precision.
        seeds: how many, from 0 on.
        alarms: the seeds with which it is not conformant.
        largest: the largest error that passed, in units of its budget.
    """

    encoder: str
    dtype: str
    seeds: int
    alarms: list[int]
    largest: float


def encoders() -> dict[str, Make]:
    """Every correct encoder at hand, by name."""
    found = {f"profile {name}": reference(name) for name in PROFILES} | TORCH
    found |= {f"tutorial {name}": tutorial.make for name, tutorial in all_tutorials().items()}
    if find_spec("transformers"):
        from conformance_tests.meta_tests.encoders.test_transformers import RIGHT

        found |= {f"transformers {name}": make for name, (make, _) in RIGHT.items()}
    return found


def jobs(part: int) -> Iterator[tuple[str, str, int]]:
    """What is run: encoder, precision, number of seeds; fewer where judging one takes longer.

    Args:
        part: by what the numbers of seeds are divided, for a quicker look.
    """
    for name in encoders():
        published = name.startswith(("profile ", "torch,"))
        yield name, "float64", max(1, (10 if name.startswith("tutorial ") else 200) // part)
        if published:
            yield from ((name, dtype, max(1, 20 // part)) for dtype in ("float32", "bfloat16", "float16"))


def sweep(job: tuple[str, str, int]) -> Sweep:
    """Judge one encoder with every seed."""
    name, dtype, seeds = job
    make, alarms, largest = encoders()[name], [], 0.0
    for seed in range(seeds):
        target = check(make, seed=seed, dtype=dtype).targets[0]
        if target.verdict != "conformant":
            alarms.append(seed)
        ratios = [r.error / r.budget for r in target.of("pass") if r.error is not None and r.budget]
        largest = max([largest, *ratios])
    return Sweep(name, dtype, seeds, alarms, largest)


def on_file() -> list[Sweep]:
    """What was found last."""
    return [Sweep(**entry) for entry in json.loads(FILE.read_text(encoding="utf-8"))]


def write(sweeps: Iterable[Sweep]) -> None:
    """Put sweeps on file, in the order of the encoders; what is known of one that is at hand no more is dropped."""
    order = {name: place for place, name in enumerate(encoders())}
    listed = sorted((s for s in sweeps if s.encoder in order), key=lambda s: order[s.encoder])
    lines = ",\n ".join(json.dumps(asdict(s), ensure_ascii=False) for s in listed)
    FILE.write_text(f"[{lines}]\n", encoding="utf-8")


def main() -> None:
    """Run every sweep and put each outcome on file; the exit status says whether there was an alarm."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--part", type=int, default=1, help="divide the numbers of seeds by this")
    asked.add_argument("--of", default="", help="judge encoders whose names begin so; others keep what is on file")
    asked.add_argument("--missing", action="store_true", help="leave out what is on file with as many seeds")
    options = asked.parse_args()
    kept = {(s.encoder, s.dtype): s for s in on_file()} if FILE.exists() else {}
    done = {key: s.seeds for key, s in kept.items()} if options.missing else {}
    todo = [
        (name, dtype, seeds)
        for name, dtype, seeds in jobs(options.part)
        if name.startswith(options.of) and done.get((name, dtype), 0) < seeds
    ]
    found = []
    for one in in_workers(sweep, todo):
        found.append(one)
        what = f"alarm with seeds {one.alarms}" if one.alarms else f"largest error {one.largest:.3f} of its budget"
        print(f"{len(found)} of {len(todo)}: {one.encoder} in {one.dtype}: {what}", flush=True)
        write((kept | {(s.encoder, s.dtype): s for s in found}).values())
    sys.exit(any(s.alarms for s in found))


if __name__ == "__main__":
    main()
