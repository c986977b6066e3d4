"""Samples of attention."""

from tests.samples import S, T

Q, K, V = T(2, 3, 4), T(2, 5, 4), T(2, 5, 2)
ROWS = [
    S("nn.functional.scaled_dot_product_attention", Q, K, V),
    S("nn.functional.scaled_dot_product_attention", Q, K, V, is_causal=True),
    S("nn.functional.scaled_dot_product_attention", Q, K, V, T(3, 5), scale=0.3),
    S("nn.functional.scaled_dot_product_attention", Q, K, V, T(2, 3, 5, kind="bool")),
    S("nn.functional.scaled_dot_product_attention", T(1, 4, 3, 2), T(2, 2, 3, 2), T(2, 2, 3, 2),
      enable_gqa=True),
    S("nn.functional.scaled_dot_product_attention", Q, K, V, None, 0.5, _random=True),
]  # fmt: skip
