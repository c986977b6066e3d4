"""The C library keeps the memory that arrays free, unless it is told otherwise."""

from __future__ import annotations

import platform

import pytest

from adjoint.engine.backends.array.memory.allocator import VARIABLES, keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator is meant")
def test_glibc_accepts_the_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert keep_freed_memory()


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, "1") for name in VARIABLES), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1")],
)
def test_a_choice_of_the_user_stands(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert not keep_freed_memory()
