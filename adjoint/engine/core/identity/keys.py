"""Keys: names for what is made from given parts."""

from __future__ import annotations

import hashlib


def key_of(*parts: str | bytes) -> str:
    """A key for what is made from these parts, in this order.

    >>> key_of("ab", "c") != key_of("a", "bc")
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
