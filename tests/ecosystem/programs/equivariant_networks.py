"""Networks of points and proteins: egnn, invariant point attention, linear attention of several kinds, trained two steps."""

import torch
from common import fill, picture, say, train
from egnn_pytorch import EGNN, EGNN_Network
from g_mlp_pytorch import gMLP
from invariant_point_attention import InvariantPointAttention, IPABlock
from linear_attention_transformer import LinearAttentionTransformerLM
from mlp_mixer_pytorch import MLPMixer
from soft_moe_pytorch import SoftMoE
from vit_pytorch.simple_vit import SimpleViT

found = []
feats, coors = picture(2, 6, 8), picture(2, 6, 3)
layer = fill(EGNN(dim=8, m_dim=4, num_nearest_neighbors=3, norm_coors=True))


def moved():
    """Of features and places."""
    h, where = layer(feats, coors)
    return h.square().mean() + where.square().mean()


found += train(layer, moved, steps=2)
atoms = fill(EGNN_Network(num_tokens=10, dim=8, depth=2, m_dim=4))
ids, mask = torch.arange(12).reshape(2, 6) % 10, torch.ones(2, 6, dtype=torch.bool)
found += train(atoms, lambda: atoms(ids, coors, mask=mask)[0].square().mean(), steps=2)
turn = torch.eye(3).expand(2, 6, 3, 3)
points = fill(
    IPABlock(
        dim=8,
        heads=2,
        scalar_key_dim=4,
        scalar_value_dim=4,
        point_key_dim=2,
        point_value_dim=2,
        require_pairwise_repr=False,
    )
)
found += train(
    points,
    lambda: points(feats, rotations=turn, translations=coors, mask=mask).square().mean(),
    steps=2,
)
words = torch.arange(32).reshape(2, 16) % 20
for net, given in (
    (LinearAttentionTransformerLM(num_tokens=20, dim=16, heads=2, depth=1, max_seq_len=16, causal=True, ff_dropout=0.0), words), (gMLP(num_tokens=20, dim=16, depth=2, seq_len=16), words),
    (MLPMixer(image_size=16, channels=3, patch_size=4, dim=16, depth=1, num_classes=4), picture(2, 3, 16, 16)), (SoftMoE(dim=8, seq_len=6, num_experts=2), feats),
    (SimpleViT(image_size=16, patch_size=4, num_classes=4, dim=16, depth=1, heads=2, mlp_dim=32), picture(2, 3, 16, 16)),
):  # fmt: skip
    fill(net)
    found += train(net, lambda: net(given).square().mean(), steps=2)
say(*found)
