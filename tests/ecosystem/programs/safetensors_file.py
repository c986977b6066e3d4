import os
import tempfile

import torch
from common import picture, say
from safetensors import safe_open
from safetensors.torch import load_file, save_file

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.safetensors")
    save_file({"a": picture(3, 4), "b": torch.arange(5), "h": picture(4).to(torch.bfloat16)}, path)
    back = load_file(path)
    with safe_open(path, framework="pt") as file:
        part = file.get_slice("a")[1:, :2]
        whole = file.get_tensor("b")
say(back["a"].sum(), back["h"].float().sum(), part.sum(), whole.sum())
