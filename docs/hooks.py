"""What MkDocs calls: nothing is generated here, everything in ``generators``."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
# Pages are executed by another process, which inherits the environment.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
# Their results go through a pipe of the system, not over the network; whoever builds has no say in how they run.
os.environ["JUPYTER_CONFIG_DIR"] = str(Path(HERE) / "jupyter")
RUNTIME = tempfile.TemporaryDirectory(prefix="site-")  # the path of a pipe has at most some hundred letters
os.environ["JUPYTER_RUNTIME_DIR"] = RUNTIME.name

from generators import aside, kept, links, mathfont, notebook, policy, search  # noqa: E402
from generators.problems import GapError  # noqa: E402

SERVED: list[bool] = []
"""Filled when the site is served while somebody writes it, which needs a script of MkDocs in each page."""

ASIDE: dict[str, list[str]] = {}
"""The blocks of code of each page that is being built."""

DOCUMENTS: list[dict[str, Any]] = []
"""What the search finds by its id."""


def on_startup(command: str, dirty: bool) -> None:  # noqa: ARG001
    """Remember whether the site is built or served."""
    SERVED[:] = [True] * (command == "serve")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Keep executed pages only as long as what they are computed from stays the same."""
    kept.forget()
    config.plugins["mkdocs-jupyter"].config["cache_dir"] = str(kept.place("executed", kept.computed()))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and scripts.

    Raises:
        PluginError: if an equation lacks its formula, its oracle or the test of a requirement.
    """
    try:
        generated = kept.pages()
    except GapError as problem:
        raise PluginError(str(problem)) from problem
    DOCUMENTS[:] = json.loads(generated.pop(search.DOCUMENTS))
    for path, text in generated.items():
        if (by_hand := files.get_file_from_path(path)) is not None:  # its markers stand for something now
            files.remove(by_hand)
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Spare Markdown and the search the code of the page."""
    text, ASIDE[page.file.src_uri] = aside.put_aside(markdown)
    return text


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Leave of an executed page what belongs to the page."""
    if not page.file.src_uri.endswith(".py"):
        return html
    return notebook.clean(html) if SERVED else kept.text("cleaned", html, notebook.clean)


@event_priority(-100)
def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Put the code back, and forbid scripts and anything from elsewhere but for what the page was built with."""
    whole = aside.put_back(output, ASIDE.pop(page.file.src_uri, []))
    return whole if SERVED else policy.protect(whole)


@event_priority(-100)
def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:  # noqa: ARG001
    """The same for pages without Markdown, such as 404.html."""
    return output_content if SERVED or not template_name.endswith(".html") else policy.protect(output_content)


def on_post_build(config: MkDocsConfig) -> None:
    """Add the documents of the search and the font of the formulas, and look at the site as a whole.

    The font is cut to the characters that the pages use.

    Raises:
        PluginError: if a link leads nowhere or an image has no words.
    """
    search.write(Path(config.site_dir), DOCUMENTS)
    mathfont.write(Path(config.site_dir))
    if found := list(links.faults(Path(config.site_dir))):
        raise PluginError(links.told(found))
