"""A pipe of the names of files."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["FileListerIterDataPipe"]


class FileListerIterDataPipe(IterDataPipe):
    """The names of the files in a folder, in order.

    Args:
        root: the folder, or several.
        masks: patterns of names, or one.
        recursive: whether folders inside are looked into.
        abspath: whether names are absolute.
    """

    def __init__(
        self, root: Any = ".", masks: Any = "", *, recursive: bool = False, abspath: bool = False,
        non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        self.roots = [root] if isinstance(root, (str, os.PathLike)) else list(root)
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath = recursive, abspath

    def __iter__(self) -> Iterator[str]:
        for root in self.roots:
            folder = os.path.abspath(root) if self.abspath else str(root)
            for place, folders, files in os.walk(folder):
                folders.sort()
                for name in sorted(files):
                    wanted = (not mask or fnmatch.fnmatch(name, mask) for mask in self.masks)
                    if any(wanted):
                        yield os.path.join(place, name)
                if not self.recursive:
                    break
