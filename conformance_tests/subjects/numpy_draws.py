"""Draws of NumPy that give their average: what they disturb is computed as if they were not there."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Averages:
    """Stands for a source of random numbers: each draw gives its average, and everything else is as it was."""

    def __init__(self, recorded: Callable[[Array], Array], source: Any) -> None:
        self._recorded, self._source = recorded, source

    def __getattr__(self, name: str) -> Any:
        """Return a draw that gives averages, where a known one is asked for."""
        given = getattr(self._source, name)
        if name == "default_rng":
            return lambda *args, **kwargs: Averages(self._recorded, given(*args, **kwargs))
        return partial(self._drawn, given, name) if name in AVERAGES else given

    def _drawn(self, draw: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Array:
        shape = np.shape(draw(*args, **kwargs))
        stated = inspect.signature(AVERAGES[name]).parameters
        given = dict(zip(stated, args, strict=False)) | {key: kwargs[key] for key in stated if key in kwargs}
        return self._recorded(np.broadcast_to(np.asarray(AVERAGES[name](**given), dtype=np.float64), shape).copy())


AVERAGES: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("rand", "random", "random_sample", "sample", "ranf"), lambda: 0.5),
    **dict.fromkeys(("randn", "standard_normal"), lambda: 0.0),
    "normal": lambda loc=0.0: loc,
    "uniform": lambda low=0.0, high=1.0: (np.asarray(low) + high) / 2,
    "binomial": lambda n, p: np.asarray(n) * p,
}
"""Draws of random numbers, and the average of each by those of its arguments that tell it."""
