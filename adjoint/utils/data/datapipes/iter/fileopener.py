"""A pipe of opened files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe):
    """Each name of a file with the file, opened.

    Args:
        datapipe: the names.
        mode: as `open` has it.
        encoding: of text files.
    """

    def __init__(
        self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        self.datapipe, self.mode, self.encoding = datapipe, mode, encoding

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name in self.datapipe:
            yield name, open(name, self.mode, encoding=self.encoding)  # noqa: SIM115
