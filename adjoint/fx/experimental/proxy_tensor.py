"""Tracing below functions: not under way, ever."""


def get_proxy_mode() -> None:
    """The trace under way: none."""
