"""Progress bars: on a terminal, and in notebooks, which are none."""

from __future__ import annotations

import sys
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # without ipywidgets a bar is text, which it says at length
    from tqdm.auto import tqdm as tqdm


def progress_bar(shown: bool, total: int | None, done: int, title: str) -> Any:
    """A bar that goes when it is done.

    There is none but on a terminal and in a notebook: lines at the ends of epochs must do.
    """
    place = {"file": sys.stdout} if in_notebook() else {}  # a notebook has its stderr in red
    off = not shown or (None if not place else False)
    return tqdm(total=total, initial=done, desc=title, leave=False, disable=off, **place)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this program."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
