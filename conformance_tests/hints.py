"""What an encoder says about itself, before any experiment."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hints:
    """Choices by slot or constant, and sizes by letter, as far as the subject states them.

    Hints order the search; agreement with the specification decides it.
    """

    choices: dict[str, str | float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
