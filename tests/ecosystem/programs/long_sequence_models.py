"""Attention for long sequences: linformer, performer, reformer, perceiver; a few steps of each."""

import torch
import torch.nn.functional as F
from common import fill, parts, picture, train
from linformer import Linformer, LinformerSelfAttention
from perceiver_pytorch import Perceiver, PerceiverIO
from performer_pytorch import FastAttention, Performer, PerformerLM
from reformer_pytorch import LSHSelfAttention, ReformerLM

tokens = torch.arange(32).reshape(2, 16) % 11


def kept(module):
    """The losses of a sequence model that predicts the next token."""
    fill(module)

    def loss():
        return F.cross_entropy(module(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    return train(module, loss, steps=2)


def linear():
    """Keys and values projected to fewer."""
    net = fill(Linformer(dim=8, seq_len=16, depth=2, heads=2, k=4))
    x = picture(2, 16, 8)
    found = train(net, lambda: net(x).pow(2).mean(), steps=2)
    one = fill(LinformerSelfAttention(dim=8, seq_len=16, heads=2, k=4, one_kv_head=True))
    return [*found, one(x), one(x, context=picture(2, 12, 8))]


def random_features():
    """Softmax by features, with projections that are given."""
    attention = FastAttention(dim_heads=4, nb_features=6, causal=False)
    attention.projection_matrix.copy_(picture(6, 4))
    q, k, v = picture(1, 2, 5, 4), picture(1, 2, 5, 4).cos(), picture(1, 2, 5, 4).abs()
    found = [attention(q, k, v)]
    net = fill(Performer(dim=8, depth=1, heads=2, dim_head=4, generalized_attention=True))
    for name, value in net.named_buffers():
        if "projection" in name:
            value.copy_(picture(*value.shape))
    x = picture(2, 6, 8)
    found += train(net, lambda: net(x).pow(2).mean(), steps=2)
    words = PerformerLM(num_tokens=11, max_seq_len=16, dim=8, depth=1, heads=2, dim_head=4, causal=True,
                        generalized_attention=True)  # fmt: skip
    for name, value in words.named_buffers():
        if "projection" in name:
            value.copy_(picture(*value.shape))
    return [*found, *kept(words)]


def hashed():
    """Reformer in full attention, where hashing takes no part; reversible layers."""
    found = kept(ReformerLM(num_tokens=11, dim=8, depth=2, max_seq_len=16, heads=2, causal=True,
                            full_attn_thres=64, bucket_size=4, n_hashes=2, lsh_dropout=0.0))  # fmt: skip
    layer = fill(LSHSelfAttention(dim=8, heads=2, bucket_size=4, n_hashes=2, full_attn_thres=64))
    return [*found, layer(picture(2, 16, 8))]


def latents():
    """Perceivers: inputs of any size into few latents."""
    net = fill(Perceiver(input_channels=3, input_axis=2, num_freq_bands=2, max_freq=4.0, depth=2, num_latents=4,
                         latent_dim=8, cross_heads=1, latent_heads=2, cross_dim_head=4, latent_dim_head=4, num_classes=3))  # fmt: skip
    x = picture(2, 5, 5, 3)
    found = train(net, lambda: F.cross_entropy(net(x), torch.tensor([0, 2])), steps=2)
    both = fill(PerceiverIO(dim=6, queries_dim=5, logits_dim=3, depth=1, num_latents=4, latent_dim=8, cross_heads=1,
                            latent_heads=2, cross_dim_head=4, latent_dim_head=4))  # fmt: skip
    mask = torch.arange(7)[None] < torch.tensor([[4], [7]])
    return [*found, both(picture(2, 7, 6), mask=mask, queries=picture(2, 3, 5))]


parts(linear, random_features, hashed, latents)
