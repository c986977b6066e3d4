"""Words as arguments: kernels that are launched one by one rather than replayed.

Note [arguments]
    Kernels read their words from memory (Note [kernel table]), which a graph of launches needs. A
    launch of a single kernel is told its words best by its arguments: there is nothing to copy to
    the device before it, and nothing to wait for. So a kernel's text is rewritten: every load of a
    word becomes an argument. A kernel that reads words in another way (one of many finds its own by
    its number) stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from sys import intern

from adjoint.engine.backends.triton.launch_words import TABLE, Written

MOST = 256  # arguments; CUDA takes 4 KiB of them
_HEAD = "(words):\n"
_WHOLE = re.compile(r"tl\.load\(w \+ (\d+)\)")
_FLOAT = re.compile(r"tl\.load\(\(w \+ (\d+)\)\.to\(tl\.pointer_type\(tl\.float64\)\)\)")
_LEFT = re.compile(r"\b(?:w|words)\b")


def with_arguments(written: Written, count: int) -> Written | None:
    """The kernel with `count` words as arguments w0, w1, ...; None where it has to load them."""
    ways = [written, *written.others]
    sources = [spread(way.source, count) if count <= MOST else None for way in ways]
    if None in sources:
        return None
    first, *others = [
        replace(way, source=intern(source), others=())  # of many shapes the same
        for way, source in zip(ways, sources, strict=True)
        if source is not None
    ]
    return first.beside(others)


def spread(source: str, count: int) -> str | None:
    """A kernel's text with its words as arguments.

    >>> print(spread(f"def kernel(words):\\n{TABLE}    n = tl.load(w + 1)\\n", 2))
    def kernel(w0, w1):
        n = w1.to(tl.int64)
    <BLANKLINE>
    """
    if source.count(_HEAD) != 1 or source.count(TABLE) != 1:
        return None
    names = ", ".join([f"w{k}" for k in range(count)])
    source = source.replace(_HEAD, f"({names}):\n").replace(TABLE, "")
    source = _FLOAT.sub(r"w\1.to(tl.int64).to(tl.float64, bitcast=True)", source)
    source = _WHOLE.sub(r"w\1.to(tl.int64)", source)
    return None if _LEFT.search(source) else source
