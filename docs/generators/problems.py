"""What stops the build, known without loading what finds it."""


class GapError(Exception):
    """Something that the specification promises and nobody has written."""


class FormulaError(ValueError):
    """LaTeX that is no formula."""
