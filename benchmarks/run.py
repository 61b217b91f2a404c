"""Ratios measured side by side in one run; absolute times say little about another machine.

Each figure is the median of several repetitions, interleaved so that a busy machine slows
both sides alike.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

REPETITIONS = 5


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ratio(work: Callable[[], object], unit: Callable[[], object]) -> float:
    """The median time of ``work`` over that of ``unit``, measured in turns."""
    pairs = [(seconds(work), seconds(unit)) for _ in range(REPETITIONS)]
    return median(w for w, _ in pairs) / median(u for _, u in pairs)


def python(*arguments: str) -> Callable[[], object]:
    """A fresh interpreter running something."""
    return lambda: subprocess.run([sys.executable, *arguments], check=False, capture_output=True)


def main() -> None:
    """Print every ratio with what it compares."""
    import_torch = python("-c", "import torch")
    command = ("-m", "conformance_tests")
    print(f"help / import torch                     {ratio(python(*command, '--help'), import_torch):6.2f}")
    print(f"usage error / import torch              {ratio(python(*command, 'check', 'nobody'), import_torch):6.2f}")
    one = python(*command, "check", "torch-post-ln")
    print(f"check of one encoder / import torch     {ratio(one, import_torch):6.2f}")

    from conformance_tests import check

    check("torch-post-ln")
    several = ["torch-post-ln", "torch-pre-ln", "reference"]
    print(f"three encoders / one, torch imported    {ratio(lambda: check(several), lambda: check(several[0])):6.2f}")


if __name__ == "__main__":
    main()
