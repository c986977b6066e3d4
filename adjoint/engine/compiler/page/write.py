"""The page as one file: data, style and script in it, nothing fetched."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from adjoint.engine.compiler.page.collect import collect
from adjoint.engine.core.html import escape

SOURCE_LIMIT = 400_000  # characters of one function that are shown


def page(data: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """The HTML of a page."""
    here = files("adjoint.engine.compiler.page")
    style = (here / "page.css").read_text(encoding="utf-8")
    script = (here / "page.js").read_text(encoding="utf-8")
    body = (here / "page.html").read_text(encoding="utf-8")
    shown = {name: text[:SOURCE_LIMIT] for name, text in sources.items()}
    packed = base64.b64encode(zlib.compress(json.dumps(shown).encode(), 9)).decode()
    parts = {
        "TITLE": escape(str(data["name"])),
        "STYLE": style,
        "SCRIPT": script.replace("</", "<\\/"),
        "DATA": embedded(data),
        "SOURCES": packed,
    }
    for name, text in parts.items():
        body = body.replace(f"<!--{name}-->", text, 1)
    return body


def embedded(data: Any) -> str:
    """JSON that can stand in a script element whatever names are in it."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_page(path: str | Path, shown: Any) -> None:
    """Write the page about a compiled function's latest program."""
    program = shown.latest
    tell = getattr(program.executable, "sources", None)
    data = collect(shown.families.name, program, shown)
    text = page(data, tell() if tell is not None else {})
    Path(path).write_text(text, encoding="utf-8")
