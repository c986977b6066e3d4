import torch
from common import say
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss  # noqa: F401
from sentence_transformers.util import cos_sim

say(*cos_sim(torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)).flatten().tolist())
