"""Files of datasets: their sums, archives and downloads, at torchvision's path."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from adjoint.hub import download_url_to_file

Name = TypeVar("Name", str, bytes)


def calculate_md5(fpath: str | os.PathLike[str], chunk_size: int = 1 << 20) -> str:
    """The MD5 sum of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while block := file.read(chunk_size):
            digest.update(block)
    return digest.hexdigest()


def check_md5(fpath: str | os.PathLike[str], md5: str, **kwargs: Any) -> bool:
    """Whether a file has an MD5 sum."""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: str | os.PathLike[str], md5: str | None = None) -> bool:
    """Whether a file is there and, if a sum is given, has it.

    >>> check_integrity("no such file")
    False
    """
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(
    url: str,
    root: str | os.PathLike[str],
    filename: str | os.PathLike[str] | None = None,
    md5: str | None = None,
    max_redirect_hops: int = 3,
) -> None:
    """Fetch a file into a folder, unless it is there already; its sum must be right."""
    folder = os.path.expanduser(root)
    path = os.path.join(folder, os.fspath(filename) if filename else os.path.basename(url))
    os.makedirs(folder, exist_ok=True)
    if check_integrity(path, md5):
        return
    download_url_to_file(url, path)
    if not check_integrity(path, md5):
        raise RuntimeError("File not found or corrupted.")


def extract_archive(
    from_path: str | os.PathLike[str],
    to_path: str | os.PathLike[str] | None = None,
    remove_finished: bool = False,
) -> str | os.PathLike[str]:
    """Unpack a zip or tar file, by default beside itself; nothing may lie outside the folder."""
    folder = os.path.dirname(from_path) if to_path is None else to_path
    if zipfile.is_zipfile(from_path):
        with zipfile.ZipFile(from_path) as packed:
            packed.extractall(folder)  # which leaves out roots and `..`
    elif tarfile.is_tarfile(from_path):
        with tarfile.open(from_path) as rolled:
            _unroll(rolled, folder)
    else:
        raise RuntimeError(f"extract_archive: {os.fspath(from_path)} is no zip or tar file")
    if remove_finished:
        os.remove(from_path)
    return folder


def _unroll(rolled: tarfile.TarFile, folder: str | os.PathLike[str]) -> None:
    """Unpack a tar file that keeps to the folder, which the first of Python 3.11 do not look at."""
    if hasattr(tarfile, "data_filter"):
        rolled.extractall(folder, filter="data")
        return
    inside = os.path.realpath(folder)
    for member in rolled.getmembers():
        at = os.path.realpath(os.path.join(inside, member.name))
        if not (member.isfile() or member.isdir()) or os.path.commonpath([inside, at]) != inside:
            raise tarfile.TarError(f"{member.name!r} is a link or device, or outside of the folder")
    rolled.extractall(folder)


def download_and_extract_archive(
    url: str,
    download_root: str | os.PathLike[str],
    extract_root: str | os.PathLike[str] | None = None,
    filename: str | os.PathLike[str] | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """Fetch an archive and unpack it."""
    folder = os.path.expanduser(download_root)
    name = os.fspath(filename) if filename else os.path.basename(url)
    download_url(url, folder, name, md5)
    extract_archive(os.path.join(folder, name), extract_root or folder, remove_finished)


def list_dir(root: str | os.PathLike[str], prefix: bool = False) -> list[str]:
    """The folders in a folder."""
    return _listed(Path(root).expanduser(), prefix, Path.is_dir, "")


def list_files(root: str | os.PathLike[str], suffix: str, prefix: bool = False) -> list[str]:
    """The files in a folder that end so."""
    return _listed(Path(root).expanduser(), prefix, Path.is_file, suffix)


def _listed(root: Path, prefix: bool, belongs: Any, suffix: str) -> list[str]:
    paths = [p for p in root.iterdir() if belongs(p) and p.name.endswith(suffix)]
    return [str(p) if prefix else p.name for p in paths]


def iterable_to_str(iterable: Iterable[Any]) -> str:
    """Values in quotes, with commas between them."""
    return "'" + "', '".join(str(item) for item in iterable) + "'"


def verify_str_arg(
    value: Name,
    arg: str | None = None,
    valid_values: Sequence[Name] | None = None,
    custom_msg: str | None = None,
) -> Name:
    """The value, which must be text and among those allowed.

    >>> verify_str_arg("train", "split", ("train", "test"))
    'train'
    """
    name = "" if arg is None else f" for argument {arg}"
    if not isinstance(value, (str, bytes)):
        raise ValueError(f"Expected type str{name}, but got type {type(value)}.")
    if valid_values is not None and value not in valid_values:
        known = iterable_to_str(valid_values)
        raise ValueError(
            custom_msg or f"Unknown value {value!r}{name}. Valid values are {{{known}}}."
        )
    return value
