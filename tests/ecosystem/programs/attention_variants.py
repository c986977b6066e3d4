"""Networks with attention of other kinds, each of a small library of its own: two steps of Adam."""

import torch
from common import fill, parts, picture
from torch import nn


def tokens(most, *shape):
    return (torch.arange(int(torch.tensor(shape).prod())).reshape(*shape) * 7 + 3) % most


def steps(module, result):
    """Two losses, and the size of the last gradients."""
    fill(module)
    optimizer = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _ in range(2):
        found = result(module)
        found = found[0] if isinstance(found, tuple) else found
        loss = found if found.ndim == 0 else found.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return *losses, sum(p.grad.abs().sum() for p in module.parameters() if p.grad is not None)


def of_words():
    from block_recurrent_transformer_pytorch import BlockRecurrentTransformer
    from g_mlp_pytorch import gMLP
    from palm_rlhf_pytorch import PaLM
    from sinkhorn_transformer import SinkhornTransformerLM

    tiny = {"num_tokens": 50, "dim": 16}
    blocks = BlockRecurrentTransformer(
        **tiny, depth=2, dim_head=8, heads=2, max_seq_len=32, block_width=16,
        num_state_vectors=16, recurrent_layers=(2,), use_flash_attn=False,
    )  # fmt: skip
    gated = gMLP(**tiny, depth=2, seq_len=16, circulant_matrix=True, act=nn.Tanh(), causal=True)
    palm = PaLM(**tiny, depth=1, dim_head=8, heads=2, flash_attn=False)
    sinkhorn = SinkhornTransformerLM(
        num_tokens=50, dim=32, heads=2, depth=1, max_seq_len=32, bucket_size=8, causal=True,
        non_permutative=True,
    )  # fmt: skip
    return [
        steps(blocks, lambda m: m(tokens(50, 1, 33), return_loss=True)),
        steps(gated, lambda m: m(tokens(50, 1, 16))),
        steps(palm, lambda m: m(tokens(50, 1, 20), return_loss=True)),
        steps(sinkhorn.eval(), lambda m: m(tokens(50, 1, 32))),
    ]


def of_pictures():
    from axial_attention import AxialAttention, AxialPositionalEmbedding
    from bottleneck_transformer_pytorch import BottleStack
    from lambda_networks import LambdaLayer
    from mlp_mixer_pytorch import MLPMixer
    from siren_pytorch import SirenNet, SirenWrapper

    bottle = BottleStack(dim=16, fmap_size=8, dim_out=32, proj_factor=4, downsample=True, heads=2,
                         dim_head=8, rel_pos_emb=True)  # fmt: skip
    layer = LambdaLayer(dim=16, dim_out=16, r=3, dim_k=8, heads=2, dim_u=1)
    axial = nn.Sequential(
        AxialPositionalEmbedding(16, (8, 8), emb_dim_index=1),
        AxialAttention(dim=16, dim_index=1, heads=2, num_dimensions=2),
    )
    mixer = MLPMixer(image_size=16, channels=3, patch_size=4, dim=16, depth=1, num_classes=5)
    waves = SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3)
    siren = SirenWrapper(waves, latent_dim=8, image_width=8, image_height=8)
    image = picture(1, 16, 8, 8)
    return [
        steps(bottle, lambda m: m(picture(2, 16, 8, 8))),
        steps(layer, lambda m: m(picture(2, 16, 8, 8))),
        steps(axial, lambda m: m(image)),
        steps(mixer, lambda m: m(picture(2, 3, 16, 16))),
        steps(siren, lambda m: m(picture(1, 3, 8, 8), latent=picture(8))),
    ]


def of_rows():
    from conformer import ConformerBlock
    from hyper_connections import HyperConnections
    from iTransformer import iTransformer
    from nystrom_attention import Nystromformer
    from product_key_memory import PKM
    from soft_moe_pytorch import SoftMoE
    from tab_transformer_pytorch import FTTransformer
    from taylor_series_linear_attention import TaylorSeriesLinearAttn

    start, expand, reduce = HyperConnections.get_init_and_expand_reduce_stream_functions(4)

    class Streams(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = start(dim=16, branch=nn.Linear(16, 16))

        def forward(self, x):
            return reduce(self.branch(expand(x)))

    series = iTransformer(num_variates=5, lookback_len=16, dim=16, depth=1, heads=2, dim_head=8,
                          pred_length=(4,), num_tokens_per_variate=1,
                          use_reversible_instance_norm=True)  # fmt: skip
    table = FTTransformer(categories=(10, 5), num_continuous=4, dim=16, dim_out=1, depth=1, heads=2)
    low_rank = Nystromformer(dim=16, depth=1, heads=2, dim_head=8, num_landmarks=8)
    memory = PKM(dim=16, heads=2, dim_head=8, num_keys=8, topk=4)
    block = ConformerBlock(dim=16, dim_head=8, heads=2, ff_mult=2, conv_kernel_size=7)
    return [
        steps(series, lambda m: m(picture(2, 16, 5))),
        steps(table, lambda m: m(tokens(5, 4, 2), picture(4, 4))),
        steps(low_rank, lambda m: m(picture(1, 32, 16))),
        steps(memory, lambda m: m(picture(1, 12, 16))),
        steps(block, lambda m: m(picture(2, 20, 16))),
        steps(SoftMoE(dim=16, seq_len=16, num_experts=4), lambda m: m(picture(2, 16, 16))),
        steps(TaylorSeriesLinearAttn(dim=16, dim_head=8, heads=2), lambda m: m(picture(1, 20, 16))),
        steps(Streams(), lambda m: m(picture(2, 6, 16))),
    ]


def of_points():
    from egnn_pytorch import EGNN_Network
    from se3_transformer_pytorch import SE3Transformer

    mask = torch.ones(1, 16).bool()
    graph = EGNN_Network(num_tokens=21, num_positions=32, dim=16, depth=2,
                         num_nearest_neighbors=4, coor_weights_clamp_value=2.0)  # fmt: skip
    turned = SE3Transformer(dim=8, heads=2, depth=1, dim_head=4, num_degrees=2, valid_radius=10)

    def of_graph(module):
        feats, places = module(tokens(21, 1, 16), picture(1, 16, 3), mask=mask)
        return feats.square().mean() + places.square().mean()

    return [
        steps(graph, of_graph),
        steps(
            turned, lambda m: m(picture(1, 10, 8), picture(1, 10, 3), mask[:, :10], return_type=0)
        ),
    ]


parts(of_words, of_pictures, of_rows, of_points)
