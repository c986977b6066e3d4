"""Looking inside: a profile of a compiled step, its page, the first NaN of a broken one.

python examples/look_inside.py [--quick]
"""

from __future__ import annotations

import argparse

import adjoint as ad
from adjoint import nn
from adjoint.profiler import profile


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a smaller network")
    width = 32 if parser.parse_args().quick else 512

    ad.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    optimizer = ad.optim.AdamW(model.parameters())

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x = ad.randn(64, width)
    step(x)
    with profile() as seen:
        for _ in range(5):
            step(x)
    print(seen.key_averages().table("self_cpu_time_total", row_limit=6))
    step.explain(html="step.html", run=(x,))
    print("step.html: what became of it, kernel by kernel")
    try:
        with ad.debug.break_on_nonfinite():
            (model(x) - 100).log().mean()
    except ad.debug.NonFiniteError as error:
        print(error)


if __name__ == "__main__":
    main()
