"""The content security policy that a page gets."""

import re

import pytest

from conformance_tests.meta_tests.site.site import Site, need_site

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")


def test_a_script_inside_of_a_page_is_allowed_by_its_hash() -> None:
    """The script and its hash are the example of the W3C's recommendation on content security policies."""
    from generators.policy import policy

    said = policy("<head><script>alert('Hello, world.');</script></head>")
    assert "script-src 'self' 'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=';" in said


def test_scripts_from_files_and_data_need_no_hash() -> None:
    from generators.policy import policy

    said = policy('<script src="a.js"></script><script id="x" type="application/json">{"a": 1}</script>')
    assert "script-src 'self';" in said


def test_the_policy_stands_before_what_it_governs() -> None:
    from generators.policy import protect

    page = protect('<html><head lang="en"><script>x = 1</script></head><body><header></header></body></html>')
    assert page.startswith('<html><head lang="en"><meta http-equiv="Content-Security-Policy"')
    assert page.count("Content-Security-Policy") == 1


def test_every_page_has_its_policy(site: Site) -> None:
    for path in site.folder.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        policies = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
        assert len(policies) == 1, path.name
        assert "default-src 'self'; script-src 'self'" in policies[0], path.name
        assert "unsafe" not in policies[0].partition("style-src")[0], path.name
