"""Write down what PyTorch gives: `python -m tests.recorded.write`, where it is installed."""

from __future__ import annotations

import json
import sys
import warnings
from importlib import import_module
from typing import Any

from tests.recorded import NUMBERS, TOPICS, plain, programs_of


def write(topic: str, torch: Any) -> None:
    """The numbers of a topic's programs, one program a line."""
    lines = []
    for name, program in sorted(programs_of(topic).items()):
        torch.manual_seed(0)
        lines.append(f"{json.dumps(name)}: {json.dumps(plain(program(torch)))}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (NUMBERS / f"{topic}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for chosen in sys.argv[1:] or TOPICS:
        write(chosen, import_module("torch"))
