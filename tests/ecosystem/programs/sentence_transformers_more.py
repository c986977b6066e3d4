import tempfile

import torch
from common import fill, say
from sentence_transformers import InputExample, SentenceTransformer, losses, util
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"the cat sat on a mat dog ran far away".split()]
inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
inner.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
found = []
texts = ["the cat sat on a mat", "a dog ran", "the dog ran far away"]
with tempfile.TemporaryDirectory() as folder:
    PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    fill(BertModel(config)).save_pretrained(folder)
    body = Transformer(folder)
    model = SentenceTransformer(
        modules=[body, Pooling(16, "mean"), fill(Dense(16, 8)), Normalize()], device="cpu"
    )
    vectors = model.encode(texts, convert_to_tensor=True)
    found += vectors.flatten().tolist()
    found += util.cos_sim(vectors, vectors).flatten().tolist()
    found += [hit["score"] for hit in util.semantic_search(vectors[:1], vectors, top_k=2)[0]]
    found += [model.similarity(vectors, vectors).sum(), model.get_sentence_embedding_dimension()]
    for loss, labels in (
        (losses.CosineSimilarityLoss(model), torch.tensor([0.8, 0.1])),
        (losses.MultipleNegativesRankingLoss(model), None),
        (losses.ContrastiveLoss(model), torch.tensor([1, 0])),
        (losses.CoSENTLoss(model), torch.tensor([0.8, 0.1])),
    ):
        pairs = [model.tokenize(texts[:2]), model.tokenize(texts[1:])]
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(2):
            optimizer.zero_grad()
            value = loss([dict(p) for p in pairs], labels)
            value.backward()
            optimizer.step()
            found.append(value.item())
    model.save(folder + "/kept")
    again = SentenceTransformer(folder + "/kept", device="cpu")
    found += again.encode(texts[:1], normalize_embeddings=True).flatten().tolist()
    found.append(InputExample(texts=texts[:2], label=0.5).label)
say(*found)
