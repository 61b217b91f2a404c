"""Functions of the suite that are applied to many items, in worker processes that serve one call after the other.

The measurements of the suite run so, each item a judgement. A worker keeps what it has computed once, such as the
budgets of a profile, and has seen no target of anybody else.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TypeVar

from conformance_tests.errors import WorkerFault
from conformance_tests.isolation.process import Worker, usable_cores
from conformance_tests.isolation.worker import packed, unpacked

T = TypeVar("T")
R = TypeVar("R")


def in_workers(function: Callable[[T], R], items: Iterable[T], workers: int | None = None) -> Iterator[R]:
    """Apply a function to each item in worker processes; yield the results in the order of the items.

    Args:
        function: a function of a module.
        items: what it is applied to; these and the results can be pickled.
        workers: the number of processes; by default the number of cores that this process may use.

    Raises:
        WorkerFault: what the function raised.
        Lost: if its process ended.
    """
    number = workers or usable_cores()
    name = name_of(function)
    idle: SimpleQueue[Worker] = SimpleQueue()

    def call(item: T) -> R:
        worker = idle.get()
        try:
            worker.ask(call=name, item=packed(item))
            answer = worker.answer(None)
        finally:
            idle.put(worker)
        if "fault" in answer:
            raise WorkerFault(answer["fault"])
        result: R = unpacked(answer["returned"])
        return result

    # The workers end first, so that nobody waits for what nobody wants.
    with ThreadPoolExecutor(number) as pool, ExitStack() as ending:
        for _ in range(number):
            worker = Worker(None)
            ending.callback(worker.end)
            idle.put(worker)
        yield from pool.map(call, items)


def name_of(function: Callable[..., object]) -> str:
    """Return the name by which a worker finds a function, also if its module is what Python runs."""
    spec = sys.modules[function.__module__].__spec__
    assert spec is not None
    return f"{spec.name}:{function.__qualname__}"
