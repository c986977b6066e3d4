"""Sphinx configuration."""

project = "Adjoint"
author = "the Adjoint developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "Adjoint"
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
autodoc_typehints = "none"
suppress_warnings = ["myst.header"]
