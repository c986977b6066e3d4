"""What installers know of the packages that Adjoint answers for."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any


class Answered(Distribution):
    """What `importlib.metadata` reports of such a package."""

    def __init__(self, package: str, version: str) -> None:
        self._package = package
        self._version = version

    def read_text(self, filename: str) -> str | None:
        """Its metadata and the package it brings; it has no other files."""
        if filename == "top_level.txt":
            return f"{self._package}\n"
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._package}\nVersion: {self._version}\n"

    def locate_file(self, path: Any) -> Any:
        """Where a file of it would lie: in Adjoint."""
        return Path(__file__).parent.parent / path
