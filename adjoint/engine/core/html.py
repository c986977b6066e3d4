"""Small pieces of HTML for notebooks; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table.

    >>> table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(str(t))}</th>" for t in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def folded(title: str, inside: str, *, opened: bool = False) -> str:
    """A line that opens with a click; `inside` is HTML already."""
    state = " open" if opened else ""
    return (
        f"<details{state} style='margin-left:1em'><summary>{escape(title)}</summary>"
        f"{inside}</details>"
    )


def line(text: str) -> str:
    """A line of code."""
    return f"<div style='margin-left:2em;font-family:monospace'>{escape(text)}</div>"


def code(text: str) -> str:
    """Text as it is."""
    return f"<pre>{escape(text)}</pre>"
