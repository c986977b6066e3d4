"""Where PyTorch once had what is in `hub`."""

from adjoint.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
