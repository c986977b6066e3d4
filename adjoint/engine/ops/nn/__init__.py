"""Operations of neural networks: activations, normalisations, dropout, embeddings, losses."""
