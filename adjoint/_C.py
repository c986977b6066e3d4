"""The few names of PyTorch's compiled module that Python programs reach for."""


def _log_api_usage_once(event: str) -> None:
    """Nothing: PyTorch counts uses of its API here where its owner asked for that."""
