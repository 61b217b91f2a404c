"""Encoders written in small NumPy frameworks of their authors."""

from typing import Any

import numpy as np

from conformance_tests.meta_tests.encoders.unusual_calls import excused, unusual

Array = Any

WIDTH, HEADS, INNER = 28, 4, 37


class Part:
    """Takes its input by place and anything else by name; a new part is in training mode."""

    def __init__(self) -> None:
        self.training = True

    def __call__(self, x: Array, **others: Any) -> Array:
        return self.forward(x, **others)

    def forward(self, x: Array) -> Array:
        raise NotImplementedError


class Map(Part):
    def __init__(self, reads: int, gives: int, numbers: np.random.Generator) -> None:
        super().__init__()
        self.W, self.b = numbers.standard_normal((reads, gives)) / np.sqrt(reads), np.zeros(gives)

    def forward(self, x: Array) -> Array:
        return x @ self.W + self.b


class Standardises(Part):
    def __init__(self) -> None:
        super().__init__()
        self.gain, self.shift = np.ones(WIDTH), np.zeros(WIDTH)

    def forward(self, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * self.gain + self.shift


class Drops(Part):
    """Drops in training mode only."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = np.random.default_rng(0)

    def forward(self, x: Array) -> Array:
        return x * (self.numbers.random(x.shape) >= 0.1) / 0.9 if self.training else x


class AlwaysDrops(Drops):
    """Drops in evaluation mode too, with random numbers from the generator that it holds."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Array) -> Array:
        return x * (self.numbers.random(x.shape) >= self.rate) / (1 - self.rate)


class Attends(Part):
    """Requires a mask with the shape of the scores, True = keep."""

    def __init__(self, numbers: np.random.Generator) -> None:
        super().__init__()
        self.count = HEADS
        self.maps = [Map(WIDTH, WIDTH, numbers) for _ in range(4)]

    def forward(self, x: Array, mask: Array) -> Array:  # type: ignore[override]
        B, n, _ = x.shape
        q, k, v = (m(x).reshape(B, n, self.count, -1).transpose(0, 2, 1, 3) for m in self.maps[:3])
        scores = q @ k.transpose(0, 1, 3, 2) / self.divisor(q)
        if mask.shape != scores.shape:
            raise ValueError("the mask must have the shape of the scores")
        scores = np.where(mask, scores, -1e9)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads = weights / weights.sum(-1, keepdims=True) @ v
        return self.maps[3](heads.transpose(0, 2, 1, 3).reshape(B, n, WIDTH))

    def divisor(self, q: Array) -> float:
        return float(np.sqrt(q.shape[-1]))


class DividesByAll(Attends):
    """Divides the scores by √d_model."""

    def divisor(self, q: Array) -> float:
        return float(np.sqrt(WIDTH))


class MaskOfScores(Part):
    """A Post-LN layer whose mask has the shape of the scores."""

    def __init__(self, attends: type[Attends] = Attends, drops: Drops | None = None) -> None:
        super().__init__()
        numbers = np.random.default_rng(1)
        self.attends, self.drops = attends(numbers), drops or Drops()
        self.first, self.second = Map(WIDTH, INNER, numbers), Map(INNER, WIDTH, numbers)
        self.norms = [Standardises(), Standardises()]

    def forward(self, x: Array, mask: Array) -> Array:  # type: ignore[override]
        x = self.norms[0](x + self.drops(self.attends(x, mask=mask)))
        return self.norms[1](x + self.drops(self.second(np.maximum(self.first(x), 0))))


@unusual
def mask_of_scores() -> Any:
    return MaskOfScores()


@excused("attention.scores", "the scores are multiplied by 0.188982, where 1/√7 = 0.377964 belongs")
def mask_of_scores_with_another_scale() -> Any:
    return MaskOfScores(DividesByAll)


@unusual
def drops_nothing() -> Any:
    return MaskOfScores(drops=AlwaysDrops(0.0))


@excused("dropout.identity", "random numbers enter the output in evaluation")
def drops_in_evaluation() -> Any:
    return MaskOfScores(drops=AlwaysDrops(0.1))


class Numbers:
    """Holds an array, and what is to become its gradient."""

    def __init__(self, data: Array) -> None:
        self.data = np.array(data)
        self.grad = np.zeros_like(self.data)


@unusual
class ReturnsNumbers(MaskOfScores):
    """Takes arrays, and returns an object of its author's class."""

    def forward(self, x: Array, mask: Array) -> Any:
        return Numbers(super().forward(x.data, mask))


class SumsWithEllipses(Attends):
    """Writes the axes of the batch as an ellipsis."""

    def forward(self, x: Array, mask: Array) -> Array:
        q, k, v = (
            np.einsum("...nd,dhe->...nhe", x, m.W.reshape(WIDTH, self.count, -1)) + m.b.reshape(self.count, -1)
            for m in self.maps[:3]
        )
        scores = np.einsum("...qhe,...khe->...hqk", q, k) / self.divisor(q)
        scores = np.where(mask.astype(bool), scores, -1e9)  # without ``astype`` None would hide all keys
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads = np.einsum("...hqk,...khe->...qhe", weights / weights.sum(-1, keepdims=True), v)
        return self.maps[3](heads.reshape(x.shape))


@unusual
def sums_with_ellipses() -> Any:
    return MaskOfScores(SumsWithEllipses)


@unusual
class OneSequence:
    """Takes one sequence and transposes all axes for the scores, so that a cube of numbers is accepted too."""

    def __init__(self) -> None:
        numbers = np.random.default_rng(2)
        self.q, self.k, self.v, self.o = (Map(WIDTH, WIDTH, numbers) for _ in range(4))
        self.first, self.second = Map(WIDTH, INNER, numbers), Map(INNER, WIDTH, numbers)
        self.norms = [Standardises(), Standardises()]

    def __call__(self, x: Array) -> Array:
        scores = np.dot(self.q(x), self.k(x).T) / np.sqrt(WIDTH)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        attended = self.o(np.dot(weights / weights.sum(-1, keepdims=True), self.v(x)))
        x = self.norms[0](x + attended)
        return self.norms[1](x + self.second(np.maximum(self.first(x), 0)))


def sinusoids(positions: int, first: int = 0) -> Array:
    angles = np.arange(first, first + positions)[:, None] / 10000 ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, WIDTH)


@unusual
class OneSequenceOfFeatures(OneSequence):
    """Maps the features of one sequence, and adds positions to them."""

    first_position = 0

    def __init__(self) -> None:
        super().__init__()
        self.features = Map(9, WIDTH, np.random.default_rng(3))

    def __call__(self, x: Array) -> Array:
        return super().__call__(self.features(x) + sinusoids(len(x), self.first_position))


@excused("position.sinusoidal", "the sinusoids are counted from 1, not from 0")
class OneSequenceCountedFromOne(OneSequenceOfFeatures):
    first_position = 1
