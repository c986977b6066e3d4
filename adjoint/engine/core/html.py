"""Small pieces of HTML for notebooks; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# `html.escape`, without a module that takes longer to load than all that is here: it knows the name
# of every character.
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape(text: str) -> str:
    """A text as HTML shows it.

    >>> escape("a < b")
    'a &lt; b'
    """
    return text.translate(ESCAPES)


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, names: bool = False) -> str:
    """A table; the first column has `names`, or numbers like the others.

    >>> table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """

    def line(kind: str, cells: Sequence[object]) -> str:
        left = " style='text-align:left'" if names else ""
        return "".join(
            f"<{kind}{left if not k else ''}>{escape(str(cell))}</{kind}>"
            for k, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><tr>{line('th', titles)}</tr>{body}</table>"


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
