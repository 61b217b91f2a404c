"""The templates of the formats that people read."""

from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from conformance_tests.reports import arranged, site
from conformance_tests.reports.report import Report
from encoder_spec import SPEC_VERSION, __version__
from encoder_spec.equation import equations, requirements

VERDICTS = {
    "conformant": "It computes the published equations, as far as the evidence named here reaches.",
    "nonconformant": "At least one requirement is not met: see below which, and where the error begins.",
    "undetermined": "Nothing failed, but the evidence is not enough for a verdict: see the notes.",
    "error": "The suite could not finish judging it: see the notes.",
}
OUTCOMES = {
    "pass": "met",
    "fail": "not met",
    "xfail": "not met, as expected",
    "xpass": "met, although a failure was expected: remove the entry",
    "unsupported": "this encoder does not offer what the check needs, so nothing is known",
    "blocked": "something earlier is wrong already, so nothing is known",
    "error": "the check did not finish",
}
LEVELS = {
    "static": "shapes and counts of parameters; nothing runs",
    "black-box": "properties of the outputs alone",
    "agreement": "outputs equal the specification's with the encoder's own weights",
    "trace": "intermediate values equal too, equation by equation",
    "gradient": "the backward pass too",
}


def render(
    template: str, report: Report, *, autoescape: bool, filters: Sequence[Callable[..., str]] = (), **values: Any
) -> str:
    """Fill a template with a report that is printable already.

    Args:
        template: a file of the folder ``templates``.
        report: what to show.
        autoescape: whether every value is escaped for HTML, XML and SVG.
        filters: of this format.
        values: of this format, by name.
    """
    environment = Environment(
        loader=PackageLoader("conformance_tests.reports"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update({f.__name__: f for f in filters})
    return environment.get_template(template).render(
        report=report,
        arranged=arranged,
        site=site,
        verdicts=VERDICTS,
        outcomes=OUTCOMES,
        levels=LEVELS,
        spec_version=SPEC_VERSION,
        suite_version=__version__,
        equations=equations(),
        requirements=requirements(),
        **values,
    )
