"""Sphinx configuration."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from api_pages import write_pages  # noqa: E402

write_pages(HERE / "api")

project = "Adjoint"
author = "the Adjoint developers"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = "Adjoint"
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
