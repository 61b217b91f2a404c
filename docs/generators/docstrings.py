"""Docstrings and signatures as HTML: mkdocstrings does the work, without a site around it.

It reads sources and runs none of them. Its references are resolved here: a name that has an entry on the
page leads there, any other is left as text.
"""

import re
from collections.abc import Collection, Mapping
from html import unescape
from pathlib import Path
from types import SimpleNamespace

from markdown import Markdown
from mkdocs_autorefs import AutorefsConfig, AutorefsPlugin
from mkdocstrings import Handlers, MkdocstringsExtension

from generators.html import link
from generators.kept import folder_of

OPTIONS = {
    "docstring_style": "google",
    "docstring_section_style": "list",
    "filters": ["!^_"],
    "heading_level": 3,
    "line_length": 88,
    "members_order": "source",
    "merge_init_into_class": True,
    "separate_signature": True,
    "show_bases": False,
    "show_labels": False,
    "show_root_heading": True,
    "show_signature_annotations": True,
    "show_source": False,
    "signature_crossrefs": True,
}

EXTENSIONS = ["attr_list", "toc", "pymdownx.highlight", "pymdownx.superfences"]

REFERENCE = re.compile(r'<autoref\b[^>]*?\bidentifier="([^"]*)"[^>]*>(.*?)</autoref>', re.DOTALL)
TITLE = re.compile(r'<span title="[^"]*">(.*?)</span>', re.DOTALL)
"""The full name of a type, on paper a tooltip that no keyboard reaches."""


OWN_HEADING = re.compile(r"<h3\b.*?</h3>", re.DOTALL)
"""The page has headings for what it lists, so that they are part of its table of contents."""


def render(names: Collection[str], also: Mapping[str, str]) -> dict[str, str]:
    """The HTML of each name, without a heading of its own; the members of a class have headings.

    Args:
        names: what has an entry.
        also: other names of the same, such as where it is defined.

    Raises:
        PluginError: if nothing has one of the names.
    """
    folders = sorted({str(folder_of(name.partition(".")[0]).parent) for name in names})
    handlers = Handlers(
        theme="material",
        default="python",
        inventory_project="",
        handlers_config={"python": {"paths": folders, "options": OPTIONS}},
        custom_templates=None,
        mdx=EXTENSIONS,
        mdx_config={},
        locale="en",
        tool_config=SimpleNamespace(config_file_path=str(Path("mkdocs.yml").resolve())),
    )
    references = AutorefsPlugin()
    references.config = AutorefsConfig()
    references.scan_toc = False
    converter = Markdown(extensions=[*EXTENSIONS, MkdocstringsExtension(handlers, references)])
    found = {name: converter.reset().convert(f"::: {name}") for name in names}
    entries = {other: f"#{name}" for other, name in also.items()} | {name: f"#{name}" for name in names}
    for html in found.values():
        entries |= {id: f"#{id}" for id in re.findall(r'<h4 id="([^"]+)"', html)}
    return {name: tidy(html, entries) for name, html in found.items()}


def tidy(html: str, entries: dict[str, str]) -> str:
    """The HTML with its references resolved to ``entries``, and in a block that Markdown leaves alone."""

    def resolve(match: re.Match[str]) -> str:
        name, text = unescape(match[1]), match[2]
        return link(entries[name], text) if name in entries else text

    bare = OWN_HEADING.sub("", html, count=1)
    lines = TITLE.sub(r"\1", REFERENCE.sub(resolve, bare)).splitlines()
    inside = False
    kept = []
    for line in lines:
        inside = (inside or "<pre" in line) and "</pre>" not in line
        if line.strip() or inside:
            kept.append(line)
    return "\n".join(kept)
