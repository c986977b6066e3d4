"""Embeddings, under PyTorch's module path."""

from adjoint.nn.modules.embedding import Embedding as Embedding
from adjoint.nn.modules.embedding import EmbeddingBag as EmbeddingBag
