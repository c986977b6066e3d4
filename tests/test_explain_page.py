"""The page of `explain(html=...)`: complete, escaped, without data, and its logic right."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.cli import main
from adjoint.engine.compiler.package.accounts import accounts
from adjoint.engine.compiler.package.draft import concrete

HERE = Path(__file__).parent


class Net(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = ad.nn.ModuleList([ad.nn.Linear(8, 8) for _ in range(2)])
        self.head = ad.nn.Linear(8, 3)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        for block in self.blocks:
            x = block(x).relu()
        return self.head(x)


def compiled_step() -> Any:
    model = Net()
    optimizer = ad.optim.SGD(model.parameters(), lr=0.1)

    def step(x: ad.Tensor) -> ad.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    made = ad.compile(step)
    made.model = model
    return made


def embedded(text: str) -> Any:
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])  # type: ignore[index]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    step = compiled_step()
    x = ad.full((4, 8), 7654.321)
    step(x)
    path = tmp_path_factory.mktemp("pages") / "step.html"
    assert "steps:" in step.explain(html=path, run=(x,))
    return path.read_text(encoding="utf-8")


def test_text_and_page_agree_on_operations() -> None:
    """Each of a step's entries on the page, added up, is what the text says of the step."""
    step = compiled_step()
    step(ad.ones(4, 8))
    executable = step.latest.executable
    draft, sizes = executable.drafted()
    page: dict[int, int] = {}
    for account in (a for part in accounts(draft, concrete(sizes)) for a in part):
        page[int(account.step)] = page.get(int(account.step), 0) + account.flops
    assert {k: line["flops"] for k, line in enumerate(executable.image.report, 1)} == page
    assert "matmul 4x8x8  512 FLOPs" in step.explain()


def test_it_tells_modules_weights_kernels_memory_and_guards(page: str) -> None:
    data = embedded(page)
    assert {"Net.blocks.0", "Net.blocks.1", "Net.head"} <= set(data["modules"])
    assert {"Net.blocks.0.weight", "Net.head.bias"} <= {name for name, _, _ in data["inputs"]}
    products = [k for k in data["kernels"] if k["name"].startswith("matmul")]
    # forward and weights of three layers, inputs of two
    assert sum(k["flops"] for k in products) == 2 * 4 * (2 * (64 + 64 + 24) + 64 + 24)
    assert all(k["time"] is not None and k["time"] >= 0 for k in data["kernels"])
    assert any(k["reason"] for k in data["kernels"])
    assert {phase for _, _, phase, *_ in data["nodes"]} == {0, 1, 2}
    assert data["memory"]["arena"] > 0
    assert data["guards"]
    assert "recorded 1 time" in data["recordings"]
    assert any("x = block(x).relu()" in text for _, _, text in data["lines"])


def test_code_is_there_when_asked_for(page: str) -> None:
    packed = re.search(r'id="sources">(.*?)</script>', page, re.S)[1]  # type: ignore[index]
    sources = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert {k["function"] for k in embedded(page)["kernels"]} <= set(sources)
    assert all("define" in text for text in sources.values())


def test_nothing_is_fetched_and_no_elements_are_told(page: str) -> None:
    assert "7654" not in page
    assert not re.search(r'(src|href)\s*=\s*["\']?http', page)
    assert "@import" not in page


def test_names_are_escaped(tmp_path: Path) -> None:
    wicked = type("</script><script>alert(1)</script>", (ad.nn.Linear,), {})
    layer = wicked(2, 2)
    step = ad.compile(lambda x: layer(x))
    step.families.name = "<img src=x onerror=alert(2)>"
    step(ad.ones(1, 2))
    step.explain(html=tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert any("</script>" in m for m in embedded(text)["modules"])


def test_the_pages_logic(page: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node to run the page's script")
    data = tmp_path / "data.json"
    data.write_text(json.dumps(embedded(page)))
    command = [node, str(HERE / "page_logic.js"), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"


SCRIPT = """
import adjoint as ad
def main():
    step = ad.compile(lambda x: (x @ x).relu().sum())
    step(ad.ones(64, 64)); step(ad.ones(64, 64))
    raise ValueError("later")
main()
"""


def test_a_script_that_fails_is_told_about_up_to_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(sys, "argv", ["adjoint"])
    # This process goes on, and starts others that look at its main module.
    monkeypatch.setattr("adjoint.cli.torch_alias.install", lambda: None)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    assert main(["explain", "-o", str(tmp_path / "out.html"), str(script)]) == 1
    assert "later" in capsys.readouterr().err
    data = embedded((tmp_path / "out.html").read_text())
    assert data["kernels"][0]["time"] is not None
    assert main(["explain", str(tmp_path / "absent.py")]) == 2
