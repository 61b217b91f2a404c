"""The reference of what can be imported: complete, described, and linked with the cards."""

import inspect
import re
from dataclasses import is_dataclass
from html import escape

import pytest

import conformance_tests
from conformance_tests.meta_tests.site.site import Site, need_site
from encoder_spec.equation import equations

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")


def entry(site: Site, name: str) -> str:
    """What the page says of a name, up to the next one."""
    return site.pages["reference.html"].html.partition(f'<h3 id="{name}"')[2].partition("<h3 id=")[0]


def test_whatever_the_suite_exports_has_an_entry(site: Site) -> None:
    """With every argument by its name, and the first sentence of the docstring."""
    for name in conformance_tests.__all__:
        found = getattr(conformance_tests, name)
        said = entry(site, f"conformance_tests.{name}")
        first = (inspect.getdoc(found) or "").splitlines()[0].replace("``", "")
        assert escape(first) in re.sub("</?(?:code|a)[^>]*>", "", said), name
        made_with_arguments = inspect.isfunction(found) or is_dataclass(found)
        for argument in inspect.signature(found).parameters if made_with_arguments else ():
            assert f">{argument}</span>" in said, f"{name} shows no {argument}"


def test_the_members_of_a_class_have_entries_of_their_own(site: Site) -> None:
    said = entry(site, "conformance_tests.Report")
    for member in ("verdict", "requirements", "diagnosis", "to_dict", "to_json"):
        assert f'<h4 id="conformance_tests.Report.{member}"' in said
    assert "_doc" not in entry(site, "encoder_spec.equation.Equation")


def test_types_and_names_lead_to_where_they_are_described(site: Site) -> None:
    """The type of an argument, the name of a class in a sentence; but not the name of an argument."""
    said = entry(site, "conformance_tests.check")
    assert '<a href="#encoder_spec.profiles.Profile">Profile</a>' in said
    assert '<a href="#encoder_spec.profiles.Profile"><code>Profile</code></a>' in said
    assert "<b><code>profile</code></b>" in said


def test_the_function_of_every_equation_leads_to_its_card(site: Site) -> None:
    listed = site.pages["reference.html"].html.partition('id="equations"')[2]
    for id, e in equations().items():
        assert f'<code>{e.function.__name__}</code> <a href="{e.topic}.html#{id}">' in listed, id


def test_a_name_without_an_object_or_a_docstring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from generators.problems import GapError
    from generators.reference import described

    with pytest.raises(GapError, match=r"there is no conformance_tests\.reports\.report\.Nothing"):
        described("conformance_tests.reports.report.Nothing")
    monkeypatch.setattr("conformance_tests.reports.report.finite.__doc__", None)
    with pytest.raises(GapError, match=r"conformance_tests\.reports\.report\.finite has no docstring"):
        described("conformance_tests.reports.report.finite")


def test_nothing_of_the_tool_that_reads_docstrings_is_left(site: Site) -> None:
    assert "<autoref" not in site.pages["reference.html"].html
    assert not list(site.folder.rglob("_mkdocstrings.css"))
