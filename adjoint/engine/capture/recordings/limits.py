"""How many recordings a compiled function keeps."""

from __future__ import annotations

from adjoint.engine.core.state import config


def set_recording_limit(count: int) -> None:
    """Have each compiled function keep at most so many recordings, 64 unless told otherwise.

    The one that was not used for longest is dropped for a new one, with its memory.

    >>> import adjoint as ad
    >>> ad.compiler.set_recording_limit(2)
    >>> f = ad.compile(lambda x: x + 1, dynamic=False)
    >>> _ = [f(ad.ones(n)) for n in (1, 2, 3)]
    >>> print(f.recordings().splitlines()[0])
    <lambda>: 2 programs, recorded 3 times
    >>> ad.compiler.set_recording_limit(64)
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(
            f"set_recording_limit: expected a whole number of at least 1, received {count!r}"
        )
    config.recording_limit = count


def get_recording_limit() -> int:
    """How many recordings a compiled function keeps.

    >>> import adjoint as ad
    >>> ad.compiler.get_recording_limit()
    64
    """
    return config.recording_limit
