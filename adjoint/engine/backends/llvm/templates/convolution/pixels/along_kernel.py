"""The kernel of depthwise convolutions of pixels.

Note [along pixels]
    As in Note [pixels], but each channel has a filter of its own, so that channels along the lanes
    meet their own weights. These stay in registers for all positions of a piece; each tap is one
    multiply-add with whole vectors of a pixel, or of the row of zeros.
"""

from __future__ import annotations

from functools import partial
from typing import final

from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.pixels.pieces_kernel import (
    PixelForm,
    PixelKernel,
    Put,
)
from adjoint.engine.backends.registers.vector import V, mad

MOST_TAPS = 25
IN_REGISTERS = 27  # vectors of weights


@final
class AlongKernel(PixelKernel):
    """Writes the kernel of Note [along pixels]; its form's turns are taps."""

    def strip(self, weights: str, m: V, count: V, put: Put) -> None:
        w, kind, lanes, form = self.w, self.kind, self.lanes, self.form
        factors = [
            w.load(weights, kind, w.whole(n * lanes), lanes)
            for n in range(form.turns * form.vectors)
        ]
        shift = m * self.item

        def some(j: V) -> None:
            for r in range(form.rows):
                sums = [w.code.const(0, kind, lanes)] * form.vectors
                for t in range(form.turns):
                    here = self.pixel(w.whole(t), j + r, shift)
                    for v in range(form.vectors):
                        x = self.load(here, m, v)
                        sums[v] = mad(x, factors[t * form.vectors + v], sums[v])
                if r == 0:
                    put.row(sums, j)
                else:
                    w.when(j + r < count, partial(put.row, sums, j + r))

        w.loop(0, count, some, step=form.rows)

    def load(self, here: str, m: V, v: int) -> V:
        """A vector of a pixel's channels, as far as it goes."""
        w, start = self.w, self.w.whole(v * self.lanes)
        if not self.form.masked:
            return w.load(here, self.kind, start, self.lanes)
        mask = w.lanes_below(self.word.m - m - v * self.lanes, self.lanes)
        return w.load_some(mask, self.kind, here, start)


def along_text(name: str, form: PixelForm) -> Text:
    """The kernel of Note [along pixels]; the words of an epilogue follow its own."""
    return AlongKernel(form).text(name)
