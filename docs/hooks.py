"""What MkDocs calls: nothing is generated here, everything in ``generators``."""

import os
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
# Pages are executed by another process, which inherits the environment.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))

import generators  # noqa: E402
from generators import mathfont, notebook  # noqa: E402
from generators.evidence import GapError  # noqa: E402
from generators.mathml import FormulaError  # noqa: E402


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Keep executed pages only as long as what they are computed from stays the same."""
    config.plugins["mkdocs-jupyter"].config["cache_dir"] = str(Path(".cache") / "pages" / notebook.fingerprint())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and scripts.

    Raises:
        PluginError: if an equation lacks its formula, its oracle or the test of a requirement.
    """
    try:
        generated = generators.pages() | generators.scripts()
    except (GapError, FormulaError, LookupError) as problem:
        raise PluginError(str(problem)) from problem
    for path, text in generated.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Leave of an executed page what belongs to the page."""
    return notebook.clean(html) if page.file.src_uri.endswith(".py") else html


def on_post_build(config: MkDocsConfig) -> None:
    """Add the font of the formulas, cut to the characters that the pages use."""
    mathfont.write(Path(config.site_dir))
