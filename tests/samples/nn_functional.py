"""Samples of the functions behind the layers: activations, normalisation, embeddings, losses."""

from tests.samples import S, T

X = T(2, 6)
MAPS = T(2, 4, 3)
CHANNELS = T(4)
CLASSES = T(3, kind="int", low=0, high=4)
SCORES = T(3, 4)
SIGNS = T(3, kind="int", low=0, high=2)


def F(name: str, *args: object, **kwargs: object) -> S:
    return S(f"nn.functional.{name}", *args, **kwargs)


ROWS = [
    F("gelu", X),
    F("gelu", X, approximate="tanh"),
    F("silu", X),
    F("mish", X),
    F("softplus", X, 2.0, 1.0),
    F("logsigmoid", X),
    F("elu", X, 0.7),
    F("selu", X),
    F("celu", X, 1.3),
    F("glu", X, 1),
    F("softsign", X),
    F("tanhshrink", X),
    F("relu", X),
    F("leaky_relu", X, 0.1),
    F("hardtanh", X, -0.7, 0.9),
    F("relu6", X),
    F("hardsigmoid", T(2, 6, low=-5, high=5)),
    F("hardswish", T(2, 6, low=-5, high=5)),
    F("hardshrink", X),
    F("softshrink", X, 0.3),
    F("threshold", X, 0.1, 3.0),
    F("prelu", T(2, 3), T(3)),
    F("rrelu", X, _random=True),
    F("rrelu", X, training=True, _random=True),
    F("softmin", X, 1),
    F("gumbel_softmax", X, _random=True),
    F("normalize", X),
    F("dropout", X, 0.4, _random=True),
    F("dropout2d", T(2, 3, 2, 2), 0.4, _random=True),
    F("alpha_dropout", X, 0.4, training=True, _random=True),
    F("layer_norm", T(2, 3, 4), (3, 4), T(3, 4), T(3, 4)),
    F("layer_norm", X, (6,)),
    F("layer_norm", X, (6,), None, T(6)),
    F("rms_norm", X, (6,), T(6)),
    F("rms_norm", X, (6,), eps=1e-3),
    F("group_norm", MAPS, 2, CHANNELS, CHANNELS),
    F("group_norm", MAPS, 4),
    F("batch_norm", MAPS, None, None, CHANNELS, CHANNELS, training=True),
    F("batch_norm", MAPS, T(4, grad=False), T(4, kind="positive", grad=False), CHANNELS, CHANNELS),
    F("instance_norm", MAPS, None, None, CHANNELS, CHANNELS),
    F("bilinear", T(2, 3), T(2, 2), T(4, 3, 2), T(4)),
    F("embedding", T(2, 3, kind="int", low=0, high=4), T(4, 3)),
    F("embedding", T(2, 3, kind="int", low=0, high=4), T(4, 3), padding_idx=1, _grad=False),
    F("embedding_bag", T(2, 3, kind="int", low=0, high=4), T(4, 3)),
    F(
        "embedding_bag",
        T(2, 3, kind="int", low=0, high=4),
        T(4, 3),
        mode="sum",
        per_sample_weights=T(2, 3),
    ),
    F("embedding_bag", T(2, 3, kind="int", low=0, high=4), T(4, 3, kind="distinct"), mode="max"),
    F("one_hot", CLASSES, 5, _grad=False),
    F("cosine_similarity", X, X),
    F("pairwise_distance", X, X),
    F("pdist", T(4, 3)),
    F("mse_loss", X, X),
    F("l1_loss", X, X, reduction="sum"),
    F("smooth_l1_loss", X, X, beta=0.8),
    F("huber_loss", X, X, delta=0.8),
    F("poisson_nll_loss", X, T(2, 6, kind="positive", high=4), full=True),
    F("gaussian_nll_loss", X, X, T(2, 6, kind="positive")),
    F("nll_loss", SCORES, CLASSES),
    F(
        "nll_loss",
        T(2, 4, 3),
        T(2, 3, kind="int", low=0, high=4),
        T(4, grad=False),
        reduction="sum",
    ),
    F("cross_entropy", SCORES, CLASSES),
    F("cross_entropy", SCORES, CLASSES, T(4, kind="positive", grad=False), label_smoothing=0.2),
    F("cross_entropy", SCORES, CLASSES, ignore_index=1, reduction="none", label_smoothing=0.1),
    F("cross_entropy", SCORES, T(3, 4, kind="positive"), reduction="sum"),
    F("linear_cross_entropy", T(3, 2), T(4, 2), CLASSES),
    F("binary_cross_entropy", T(2, 3, low=0.2, high=0.8), T(2, 3, low=0.2, high=0.8)),
    F("binary_cross_entropy_with_logits", X, X, pos_weight=T(6, kind="positive")),
    F("kl_div", X, T(2, 6, kind="positive"), reduction="batchmean"),
    F("kl_div", X, X, reduction="sum", log_target=True),
    F("hinge_embedding_loss", T(3), SIGNS),
    F("margin_ranking_loss", T(3), T(3), SIGNS, margin=0.1),
    F("cosine_embedding_loss", T(3, 4), T(3, 4), SIGNS, margin=-0.8),
    F("soft_margin_loss", X, T(2, 6, grad=False)),
    F("multi_margin_loss", SCORES, CLASSES, p=2),
    F("multilabel_margin_loss", T(2, 4), T(2, 4, kind="int", low=-1, high=4)),
    F("multilabel_soft_margin_loss", X, T(2, 6)),
    F("triplet_margin_loss", T(3, 4), T(3, 4), T(3, 4), swap=True),
    # The gradient is that of logits (Note [ctc gradient]), so not the finite difference.
    F("ctc_loss", T(5, 2, 4), T(2, 2, kind="int", low=1, high=4), (5, 4), (2, 1), _grad=False),
]
