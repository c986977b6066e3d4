"""`make pages`: each page renders, search finds, a click opens a module, nothing goes wrong.

    python -m tests.pages.check [--pictures FOLDER]

Pages of other subjects add a function to PAGES.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint import models
from adjoint.nn import functional as F
from tests.pages.browser import MISSING, ask, find_browser, screenshot

LARGEST = 5_000_000  # bytes of a page
QUESTION = """
  const $ = (id) => document.getElementById(id);
  const boxes = () => document.querySelectorAll("#world g.item").length;
  const wait = (ms) => new Promise((go) => setTimeout(go, ms));
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const answer = { ready: performance.now(), first: boxes(), name: $("name").textContent };
  while (painted() == null && performance.now() < 10000) await wait(20);
  answer.painted = painted() ?? null;
  const closed = [...document.querySelectorAll("#world g.item.module")].find((g) => g.querySelector("text").textContent.startsWith("▸"));
  closed.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  answer.opened = boxes();
  $("search").value = WANTED;
  $("search").dispatchEvent(new Event("input"));
  answer.found = $("found").children.length;
  $("found").firstChild.click();
  answer.chosen = document.querySelectorAll("#world g.chosen").length;
  for (const tab of ["kernels", "memory", "guards", "source"]) document.querySelector(`[data-tab=${tab}]`).click();
  await wait(1500);
  answer.kernels = document.querySelectorAll("#kernels tbody tr").length;
  answer.timed = [...document.querySelectorAll("#kernels tbody tr")].filter((row) => row.cells[2].textContent).length;
  answer.blocks = document.querySelectorAll("#plan rect").length;
  answer.guards = document.querySelectorAll("#guards li").length;
  answer.code = document.querySelector("#source pre").textContent.length;
  document.querySelector("[data-tab=graph]").click();
  const canvas = $("canvas"), frames = [];
  canvas.dispatchEvent(new PointerEvent("pointerdown", { clientX: 300, clientY: 300 }));
  let last = performance.now();
  for (let k = 0; k < 90; k++) {
    dispatchEvent(new PointerEvent("pointermove", { clientX: 300 + 3 * k, clientY: 300 + k }));
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  dispatchEvent(new PointerEvent("pointerup", {}));
  frames.sort((a, b) => a - b);
  answer.frame = frames[frames.length >> 1];
  return answer;
"""


def training_step(model: Any, loss_of: Callable[..., Any], *batch: Any) -> Any:
    """A compiled training step that has been called."""
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-4)

    def step(*batch: Any) -> Any:
        loss = loss_of(model, *batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    compiled = ad.compile(step)
    compiled(*batch)
    return compiled


def gpt2(path: Path) -> str:
    """A training step of GPT-2 small; what to search for."""
    config = models.GPT2Config()
    tokens = ad.randint(0, config.vocab_size, (1, 64))

    def loss_of(model: Any, tokens: Any) -> Any:
        out = model(tokens)
        logits = out if isinstance(out, ad.Tensor) else out[0]
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    training_step(models.GPT2(config), loss_of, tokens).explain(html=path, run=(tokens,))
    return "attn"


def resnet(path: Path) -> str:
    """A training step of ResNet-50; what to search for."""
    x, y = ad.randn(1, 3, 64, 64), ad.tensor([1])
    step = training_step(models.resnet50(), lambda m, x, y: F.cross_entropy(m(x), y), x, y)
    step.explain(html=path, run=(x, y))
    return "layer3"


PAGES: dict[str, Callable[[Path], str]] = {"gpt2": gpt2, "resnet50": resnet}


def check(answer: dict[str, Any], size: int) -> list[str]:
    """What is wrong with a page."""
    wrong = [f"console: {error}" for error in answer["errors"]]
    if wrong:
        return wrong
    wants = {
        f"{size:,} bytes, more than {LARGEST:,}": size <= LARGEST,
        f"first paint after {answer['painted']} ms": (answer["painted"] or 9999) < 2000,
        f"{answer['first']} boxes at first: not readable at first sight": answer["first"] <= 40,
        "a click opens no module": answer["opened"] > answer["first"],
        "search finds nothing": answer["found"] > 0 and answer["chosen"] == 1,
        "no kernels, or none timed": 0 < answer["timed"] <= answer["kernels"],
        "no memory plan": answer["blocks"] > 0,
        "no guards": answer["guards"] > 0,
        "no code": answer["code"] > 100,
    }
    return [fault for fault, held in wants.items() if not held]


def main() -> int:
    """Make the pages and look at them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", help="a folder for screenshots")
    parser.add_argument("names", nargs="*", help="pages; all unless given")
    chosen = parser.parse_args()
    browser = find_browser()
    if browser is None:
        print(MISSING)
        return 1
    if chosen.pictures:
        Path(chosen.pictures).mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in chosen.names or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.html"
            wanted = PAGES[name](path)
            text = path.read_text(encoding="utf-8")
            answer = ask(browser, text, QUESTION.replace("WANTED", repr(wanted)))
            faults = check(answer, len(text.encode()))
            if chosen.pictures:
                screenshot(browser, path, Path(chosen.pictures) / f"{name}.png")
        told = {k: v for k, v in answer.items() if k != "errors"}
        print(f"{name}: {len(text):,} characters; {told}")
        for fault in faults:
            print(f"{name}: {fault}")
        failed += bool(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
