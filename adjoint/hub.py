"""Published weights and models: cached files, local repositories."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse as urlparse

from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.io.files import load as _load_file

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_dir: str | None = None


def __getattr__(name: str) -> Any:
    if name == "tqdm":  # PyTorch has it here, so programs import it from here
        from tqdm import tqdm

        return tqdm
    raise _lacking(__name__, name)


def get_dir() -> str:
    """The folder of cached files: `$TORCH_HOME/hub`, or `~/.cache/torch/hub`."""
    if _dir is not None:
        return _dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """The folder of all that is kept: `$TORCH_HOME`, or `~/.cache/torch`."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep cached files in another folder."""
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file; it is there complete, or not at all.

    Args:
        url: where from.
        dst: where to.
        hash_prefix: how its SHA-256 must begin.
        progress: show how far it is, on a terminal.
    """
    from tqdm import tqdm

    digest = hashlib.sha256()
    with atomic_write(dst, "download_url_to_file") as file, urllib.request.urlopen(url) as source:
        size = source.headers.get("Content-Length")
        with tqdm(
            total=None if size is None else int(size),
            disable=None if progress else True,
            unit="B",
            unit_scale=True,
            unit_divisor=1024,
        ) as bar:
            while block := source.read(1 << 20):
                digest.update(block)
                file.write(block)
                bar.update(len(block))
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise FileError(
                f"invalid hash value of {url} (expected {hash_prefix!r}, got "
                f"{digest.hexdigest()[: len(hash_prefix)]!r})"
            )


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """A file of weights by its address, from the cache if it is there.

    Args:
        url: where it is.
        model_dir: the folder of the cache, `hub/checkpoints` unless given.
        map_location: where tensors go.
        progress: show how far it is, on a terminal.
        check_hash: whether the hash in the file's name must be the file's.
        file_name: its name in the cache, the address's unless given.
        weights_only: accepted as PyTorch has it; loading is always restricted.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    cached = os.path.join(folder, name)
    if not os.path.exists(cached):
        match = HASH_REGEX.search(name) if check_hash else None
        try:
            download_url_to_file(url, cached, match.group(1) if match else None, progress)
        except OSError as error:
            raise RuntimeError(
                f"load_state_dict_from_url: cannot fetch {url} ({error}). Put the file at {cached}."
            ) from error
    return _load_file(cached, map_location=map_location)


def _hubconf(repo: str, source: str, who: str) -> ModuleType:
    if source == "local":
        folder = Path(repo)
    elif source == "github":
        owner_name, _, branch = repo.partition(":")
        stem = owner_name.replace("/", "_")
        names = [f"{stem}_{b}" for b in ([branch] if branch else ["main", "master"])]
        places = [Path(get_dir()) / name for name in names]
        folder = next((p for p in places if p.is_dir()), places[0])
    else:
        raise ValueError(f"{who}: source must be 'github' or 'local', received {source!r}")
    path = folder / "hubconf.py"
    if repo.split(":", maxsplit=1)[0] == "pytorch/vision" and not path.is_file():
        return brought("adjoint.vision.models")
    if not path.is_file():
        raise RuntimeError(
            f"{who}: no {path}. Repositories are not downloaded: put a copy there, or pass "
            "source='local' and its folder."
        )
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def list(github: str, source: str = "github", **_: Any) -> Any:
    """The entry points of a repository's hubconf.py."""
    module = _hubconf(github, source, "hub.list")
    return [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]


def help(github: str, model: str, source: str = "github", **_: Any) -> str | None:
    """What an entry point says of itself."""
    return _entry(_hubconf(github, source, "hub.help"), model).__doc__


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github",
    trust_repo: Any = None, force_reload: bool = False, verbose: bool = True,
    skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call an entry point of a repository: a local folder, or a copy in the cache.

    Args:
        repo_or_dir: "owner/name[:branch]", or the folder.
        model: the entry point.
        args: what it is called with.
        source: "github" (looked up in the cache) or "local".
        trust_repo: accepted as PyTorch has it.
        force_reload: accepted as PyTorch has it.
        verbose: accepted as PyTorch has it.
        skip_validation: accepted as PyTorch has it.
        kwargs: what it is called with.
    """
    return _entry(_hubconf(repo_or_dir, source, "hub.load"), model)(*args, **kwargs)


def _entry(module: ModuleType, name: str) -> Any:
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"hub: cannot find callable {name} in hubconf")
    return function
