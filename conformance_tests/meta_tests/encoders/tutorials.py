"""What every encoder in the style of a tutorial is registered with: its choices, and one way to break it.

The encoders are written in the styles in which people write their first one: names, packing,
orientation, mask and signature differ, and nothing states what it does. The files
``tutorials_*.py`` hold them, by what they differ in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

Make = Callable[[], Any]


@dataclass(frozen=True)
class Tutorial:
    """An encoder, what must be found out about it, and how it is broken.

    ``breaking`` changes one thing in a sound encoder, which then departs at ``departs_at``.
    """

    name: str
    make: Make
    choices: Mapping[str, Any]
    breaking: Callable[[Any], object]
    departs_at: str
    conventions: Mapping[str, str] = field(default_factory=dict)

    def broken(self) -> Any:
        """The encoder with one thing wrong."""
        encoder = self.make()
        self.breaking(encoder)
        return encoder


TUTORIALS: dict[str, Tutorial] = {}


def tutorial(
    breaking: Callable[[Any], object],
    departs_at: str,
    conventions: Mapping[str, str] | None = None,
    **choices: Any,
) -> Callable[[Make], Make]:
    """Register a function that makes an encoder; ``choices`` are what the report must say of it."""

    def register(make: Make) -> Make:
        name = make.__name__
        assert name not in TUTORIALS, f"{name} is defined twice"
        TUTORIALS[name] = Tutorial(name, make, choices, breaking, departs_at, conventions or {})
        return make

    return register


def every(kind: type[nn.Module] | str, **changes: Any) -> Callable[[nn.Module], None]:
    """Break an encoder: change attributes of every part of a class, given by its name or itself."""

    def change(encoder: nn.Module) -> None:
        found = [part for part in encoder.modules() if kind in (type(part), type(part).__name__)]
        assert found, f"{type(encoder).__name__} has no {kind}"
        for part in found:
            for name, value in changes.items():
                assert hasattr(part, name), f"{kind} has no {name}"
                setattr(part, name, value)

    return change


def first(kind: type[nn.Module] | str, **changes: Any) -> Callable[[nn.Module], None]:
    """The same for the first part of a class alone."""

    def change(encoder: nn.Module) -> None:
        part = next(part for part in encoder.modules() if kind in (type(part), type(part).__name__))
        for name, value in changes.items():
            assert hasattr(part, name), f"{kind} has no {name}"
            setattr(part, name, value)

    return change


def unchanged(x: Tensor) -> Tensor:
    """What stands in the place of a norm that was dropped."""
    return x


def heads_mixed_up(x: Tensor) -> Tensor:
    """Merge heads (B, h, n, d_k) without moving their axis behind the positions: a classic."""
    return x.reshape(x.shape[0], x.shape[2], -1)
