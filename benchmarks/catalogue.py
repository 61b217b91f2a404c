"""The processes that are measured, and the ratios of what they take.

To add a benchmark, add its process to ``PROCESSES`` and a line to ``FIGURES``. A process that cannot run here or in
an older version is left out with its reason.
"""

from dataclasses import replace

from benchmarks.figures import Figure, Quantity
from benchmarks.measuring import CPU, LARGE, PEAK, QUICK, USUAL, WALL, Process

GB = 1e9
IMPORT = "import torch"
SECONDS = 1.4
"""Seconds that the import of torch takes where the targets were set: a target in seconds is divided by it."""

COMMAND = ("-m", "conformance_tests")


def check(
    *encoders: str, effort: int = USUAL, status: int = 0, options: tuple[str, ...] = ("--in-process",)
) -> Process:
    """Return the judgement of encoders at full level, in one process unless other options are given.

    The system knows how much memory and processor time one process took, but not those of workers that are forked.
    """
    targets = (f"benchmarks.encoders:{encoder}" for encoder in encoders)
    return Process((*COMMAND, "check", *targets, "-q", *options), effort, status=status)


def floor(encoder: str, effort: int = USUAL) -> Process:
    """Return the least that judging an encoder must cost."""
    return Process(("-m", "benchmarks.floor", encoder), effort, of_version=False)


def script(name: str, *arguments: str, effort: int = USUAL, of_version: bool = True, needs: str = "") -> Process:
    """Return a script of this folder."""
    return Process(("-m", f"benchmarks.{name}", *arguments), effort, of_version, needs=needs)


STATIC = ("--in-process", "--level", "static")
DEFECTS = ("scale", "activation", "epsilon", "mask")
DEPTHS = (1, 2, 4, 8)
FOUR = tuple(f"layers_{layers}" for layers in DEPTHS)
LENGTHS = (32, 64, 128, 256)
MORE = 4
"""Further small encoders that are judged in one run: the time of one is lost in the spread of the rest."""

PROCESSES = {
    IMPORT: Process(("-c", "import torch"), QUICK, of_version=False),
    "floor small": floor("small", QUICK),
    "floor middle": floor("middle"),
    "floor bert_base": floor("bert_base", LARGE),
    "floor deep": floor("deep", LARGE),
    "help": Process((*COMMAND, "--help"), QUICK),
    "usage error": Process((*COMMAND, "check", "nobody"), QUICK, status=2),
    "equations": Process((*COMMAND, "equations"), QUICK),
    "check small": check("small", effort=QUICK),
    "check small several": check(*["small"] * (1 + MORE), effort=QUICK),
    "static small": check("small", options=STATIC),
    "static enormous": replace(check("enormous", options=STATIC), space=int(8 * GB)),
    "check small in a worker": check("small", options=()),
    "check four": check(*FOUR, effort=LARGE, options=()),
    "check four with two jobs": check(*FOUR, effort=LARGE, options=("--jobs", "2")),
    "check middle": check("middle"),
    "check bert_base": check("bert_base", effort=LARGE),
    "check deep": check("deep", effort=LARGE),
    "reference": script("reference", effort=QUICK),
    "allclose small": script("allclose", "small", of_version=False),
    "allclose middle": script("allclose", "middle", of_version=False),
    "torch's test classes": script("torch_tests", of_version=False, needs="expecttest"),
    "transformers' tests": script("transformers_tests", effort=LARGE, of_version=False, needs="transformers"),
    **{f"check small_wrong_{defect}": check(f"small_wrong_{defect}", status=1) for defect in DEFECTS},
    **{f"check middle_wrong_{defect}": check(f"middle_wrong_{defect}", effort=LARGE, status=1) for defect in DEFECTS},
    **{f"check layers_{layers}": check(f"layers_{layers}") for layers in DEPTHS},
    **{f"floor layers_{layers}": floor(f"layers_{layers}") for layers in DEPTHS},
    **{f"check positions_{n}": check(f"positions_{n}") for n in LENGTHS},
}
"""The processes, in the order of a round: what is compared stands close together in time."""


def cpu(process: str) -> Quantity:
    """Return the processor time of a process, of which a busy machine changes little."""
    return Quantity(process, CPU)


SIZES = {"small": "2×24", "middle": "6×512", "bert_base": "BERT-base", "deep": "24×1024"}

FIGURES = (
    Figure("check of 2×24 / floor", cpu("check small"), cpu("floor small")),
    Figure("check of 6×512 / floor", cpu("check middle"), cpu("floor middle"), target=2.0),
    Figure("check of BERT-base / floor", cpu("check bert_base"), cpu("floor bert_base"), target=3.0),
    Figure("check of 24×1024 / floor", cpu("check deep"), cpu("floor deep"), target=6.0),
    Figure(
        "check of 2×24 in a worker / floor", Quantity("check small in a worker", WALL), Quantity("floor small", WALL)
    ),
    Figure("five of 2×24 / import torch", cpu("check small several"), cpu(IMPORT)),
    Figure(
        "one more of 2×24 / import torch",
        cpu("check small several"),
        cpu(IMPORT),
        less=cpu("check small"),
        times=MORE,
        target=0.15,
    ),
    *(
        Figure(
            f"wrong {defect}, {SIZES[size]} / right",
            cpu(f"check {size}_wrong_{defect}"),
            cpu(f"check {size}"),
            target=2.0,
        )
        for size in ("small", "middle")
        for defect in DEFECTS
    ),
    Figure(
        "two jobs over four encoders / one job",
        Quantity("check four with two jobs", WALL),
        Quantity("check four", WALL),
    ),
    *(
        Figure(
            f"peak of {SIZES[size]} beyond 0.5 GB / weights",
            Quantity(f"check {size}", PEAK),
            Quantity(f"floor {size}", "parameters"),
            less=GB / 2,
            target=2.0,
        )
        for size in ("middle", "bert_base", "deep")
    ),
    *(
        Figure(f"peak of {SIZES[size]} in GB", Quantity(f"check {size}", PEAK), GB)
        for size in ("middle", "bert_base", "deep")
    ),
    Figure("peak of 24×1024 / 5.5 GB", Quantity("check deep", PEAK), 5.5 * GB, target=1.0),
    Figure(
        "static level of 10¹² parameters beyond 2×24 / import torch",
        cpu("static enormous"),
        cpu(IMPORT),
        less=cpu("static small"),
        target=0.5 / SECONDS,
    ),
    Figure("help / import torch", cpu("help"), cpu(IMPORT), target=0.5 / SECONDS),
    Figure("usage error / import torch", cpu("usage error"), cpu(IMPORT), target=0.5 / SECONDS),
    Figure("list of equations / import torch", cpu("equations"), cpu(IMPORT), target=0.5 / SECONDS),
    Figure(
        "specification / torch's slow path",
        Quantity("reference", "specification"),
        Quantity("reference", "torch"),
        target=1.3,
    ),
    *(
        Figure(f"{layers} layers / import torch", cpu(f"check layers_{layers}"), cpu(IMPORT), curve="time", x=layers)
        for layers in DEPTHS
    ),
    *(
        Figure(f"peak of {layers} layers in GB", Quantity(f"check layers_{layers}", PEAK), GB, curve="peak", x=layers)
        for layers in DEPTHS
    ),
    *(
        Figure(
            f"weights of {layers} layers in GB",
            Quantity(f"floor layers_{layers}", "parameters"),
            GB,
            curve="weights",
            x=layers,
        )
        for layers in DEPTHS
    ),
    *(
        Figure(f"{n} positions / import torch", cpu(f"check positions_{n}"), cpu(IMPORT), curve="positions", x=n)
        for n in LENGTHS
    ),
    Figure("a hand-written allclose, 2×24 / floor", cpu("allclose small"), cpu("floor small"), kind="incumbent"),
    Figure("a hand-written allclose, 6×512 / floor", cpu("allclose middle"), cpu("floor middle"), kind="incumbent"),
    Figure(
        "torch's test classes, two layers of width 4 / import torch",
        cpu("torch's test classes"),
        cpu(IMPORT),
        kind="incumbent",
    ),
    Figure("transformers' tests of BERT / import torch", cpu("transformers' tests"), cpu(IMPORT), kind="incumbent"),
)

COUNTED = ("small", "layers_2", "layers_8")
"""The encoders whose passes, evaluations, draws and casts are counted."""


def chosen(effort: int) -> dict[str, Process]:
    """Return the processes that take no more than an effort."""
    return {name: process for name, process in PROCESSES.items() if process.effort <= effort}
