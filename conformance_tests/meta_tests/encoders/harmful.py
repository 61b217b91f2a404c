"""Encoders that do harm to the process they run in, each of them sound otherwise.

What they do, they do in ``forward``, unless their name says otherwise.
"""

import atexit
import builtins
import ctypes
import json
import math
import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conformance_tests.harness.run import Run
from conformance_tests.meta_tests.encoders.subjects import Sound
from conformance_tests.numerics import compare


class Harmful(Sound):
    """A sound encoder that does something before it answers."""

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Any:
        self.harm(src, src_key_padding_mask)
        return self.answer(super().forward(src, src_key_padding_mask))

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        """Nothing yet."""

    def answer(self, hidden: Tensor) -> Any:
        return hidden


class RaisesInInit(Harmful):
    def __init__(self) -> None:
        raise ValueError("no encoder\ntoday")


class Raises(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        raise LookupError("not here")


class RaisesWithMask(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        if pad is not None:
            raise LookupError("no masks")


class RaisesBaseException(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        class Doom(BaseException):
            pass

        raise Doom("of all")


class Unprintable(LookupError):
    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


class RaisesTheUnprintable(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        raise Unprintable


class RaisesKeyboardInterrupt(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        raise KeyboardInterrupt


class ExitsInInit(Harmful):
    def __init__(self) -> None:
        sys.exit("usage: train.py DATA")


class Exits(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        sys.exit(3)


class EndsProcess(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        os._exit(0)


class EndsProcessInInit(Harmful):
    def __init__(self) -> None:
        print("loading weights", flush=True)
        os._exit(3)


class FaultsOnOneSample(Harmful):
    """Dies in one check only: the one that takes a sample out of its batch."""

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        if len(src) == 1:
            ctypes.string_at(0)


class HangsOnOneSample(Harmful):
    """Hangs in that check only."""

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        if len(src) == 1:
            time.sleep(1000)


class EndsProcessWhenDifferentiated(Harmful):
    """Dies in every check that differentiates by its input."""

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        if src.requires_grad:
            os._exit(3)


class SegmentationFault(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        ctypes.string_at(0)


class HangsInInit(Harmful):
    """Says in a file which process hangs."""

    def __init__(self) -> None:
        Path("hanging").write_text(str(os.getpid()))
        time.sleep(1000)


class Hangs(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            time.sleep(1)


class HoardsMemory(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        self.hoard: list[Tensor] = []
        while True:
            self.hoard.append(torch.empty(1 << 25))


class HoardsPythonMemory(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        hoard = []
        while True:
            hoard.append(bytearray(1 << 27))


class RecursesForever(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        self.harm(src, pad)


class ClosesEveryFile(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        os.closerange(0, 1000)


class ClosesOutput(Harmful):
    def __init__(self) -> None:
        super().__init__()
        os.close(1)
        os.close(2)


class PrintsMegabytes(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        os.write(1, b"out " * 100_000)
        os.write(2, b"err " * 100_000)
        print("line\n" * 10_000)


class ReadsInput(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        assert sys.stdin.read() == ""
        assert os.read(0, 1) == b""


class Forks(Harmful):
    """The child goes on as if it were the worker."""

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.fork()


class LeavesChild(Harmful):
    """The child stays for long, with all open files."""

    def __init__(self) -> None:
        super().__init__()
        if os.fork() == 0:
            time.sleep(1000)


class LeavesThread(Harmful):
    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=time.sleep, args=(1000,)).start()
        atexit.register(time.sleep, 1000)


class LeavesFiles(Harmful):
    """Opens many files and closes none."""

    def __init__(self) -> None:
        super().__init__()
        self.files = [Path(os.devnull).open() for _ in range(100)]  # noqa: SIM115 -- left open on purpose


class ChangesSettings(Harmful):
    def __init__(self) -> None:
        super().__init__()
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float16)

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        torch.set_default_dtype(torch.float16)
        torch.set_default_device("meta")
        torch.set_num_threads(2)
        torch.set_deterministic_debug_mode("error")
        torch.backends.mha.set_fastpath_enabled(False)
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        torch._C._set_grad_enabled(True)
        sys.setrecursionlimit(10_000)
        warnings.simplefilter("error")

    def answer(self, hidden: Tensor) -> Tensor:
        torch.set_grad_enabled(False)
        return hidden


class ChangesRandomState(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        torch.manual_seed(len(src))
        random.seed(1)
        np.random.seed(1)


class ReliesOnItsDefaultDtype(Harmful):
    """Adds a constant that has full precision under its own default dtype only."""

    def __init__(self) -> None:
        super().__init__()
        torch.set_default_dtype(torch.float64)

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        assert torch.zeros(1).dtype == torch.float64


class PatchesSoftmax(Harmful):
    """Replaces torch's softmax by one at half the temperature, and attends with it."""

    def __init__(self) -> None:
        super().__init__()
        softmax = torch.softmax
        torch.softmax = nn.functional.softmax = lambda x, dim, **_: softmax(2 * x, dim)
        Tensor.softmax = lambda x, dim: torch.softmax(x, dim)


class PatchesLinear(Harmful):
    def __init__(self) -> None:
        super().__init__()
        forward = nn.Linear.forward
        nn.Linear.forward = lambda self, x: forward(self, x) + 1


class Wrong(Harmful):
    """Adds one to what it should return, and tries to pass all the same."""

    def answer(self, hidden: Tensor) -> Tensor:
        return hidden + 1


class WritesAReport(Wrong):
    """Says in every open file that it is conformant."""

    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        report = {"target": f"{__name__}:WritesAReport", "verdict": "conformant", "requirements": []}
        line = json.dumps({"report": report}).encode() + b"\n"
        for descriptor in range(3, 64):
            with suppress(OSError):
                os.write(descriptor, line)


class ReplacesJson(Wrong):
    """Turns every failure that is written as JSON into a success."""

    def __init__(self) -> None:
        super().__init__()
        encode = json.JSONEncoder.encode
        json.JSONEncoder.encode = lambda self, data: encode(self, data).replace('"fail"', '"pass"')  # type: ignore[method-assign]
        json.dumps = lambda data, **_: json.JSONEncoder().encode(data)


class ReplacesBuiltins(Wrong):
    """Lets everything be true of all, and nothing of any."""

    def __init__(self) -> None:
        super().__init__()
        builtins.all = lambda _: True  # type: ignore[assignment]
        builtins.any = lambda _: False  # type: ignore[assignment]


class ReplacesARoot(Wrong):
    """Gives everyone another square root."""

    def __init__(self) -> None:
        super().__init__()
        math.sqrt = lambda x: x


class ChangesTheSuite(Wrong):
    """Makes the suite find nothing different."""

    def __init__(self) -> None:
        super().__init__()
        Run.demand_equal = lambda *_, **__: None  # type: ignore[method-assign]


class RaisesTheBudget(Wrong):
    """Makes the suite allow any difference."""

    def __init__(self) -> None:
        super().__init__()
        compare.BUDGET = 1e9


class LeavesDirectory(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        os.chdir("/")


class ModifiesInput(Harmful):
    def harm(self, src: Tensor, pad: Tensor | None) -> None:
        with torch.no_grad():
            src.mul_(2)


class DeletesDirectory(Harmful):
    def __init__(self) -> None:
        super().__init__()
        shutil.rmtree(Path.cwd())


def returning(answer: Callable[[Tensor], Any]) -> type[Harmful]:
    """An encoder that returns this instead of its hidden states."""
    return type("Returning", (Harmful,), {"answer": staticmethod(answer)})


ReturnsNone = returning(lambda hidden: None)
ReturnsText = returning(lambda hidden: "hidden states")
ReturnsMeta = returning(lambda hidden: hidden.to("meta"))
ReturnsSparse = returning(lambda hidden: hidden.to_sparse())
ReturnsIntegers = returning(lambda hidden: hidden.long())
ReturnsFloat32 = returning(lambda hidden: hidden.float())
ReturnsNaN = returning(lambda hidden: hidden * float("nan"))
ReturnsOtherShape = returning(lambda hidden: hidden[:, :, :-1])
ReturnsScalar = returning(lambda hidden: hidden.sum())
ReturnsNested = returning(lambda hidden: torch.nested.as_nested_tensor(list(hidden)))
ReturnsEmptyTuple = returning(lambda hidden: ())
ReturnsHugeOutput = returning(lambda hidden: hidden.repeat(1000, 1000, 100))
