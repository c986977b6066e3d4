"""sentence-transformers: a trainer, losses, evaluators, a cross-encoder, files; setfit's head."""

import tempfile

import torch
from common import fill, say
from datasets import Dataset
from sentence_transformers import (
    CrossEncoder,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    models,
    util,
)
from sentence_transformers.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    TripletEvaluator,
)
from small_transformers import QUIET, WORDS
from tokenizers import Tokenizer
from tokenizers import models as token_models
from tokenizers import pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
)

known = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on mat dog ran far a bird flew over sea it is warm cold red blue".split()
pieces = Tokenizer(
    token_models.WordLevel({word: place for place, word in enumerate(known)}, "[UNK]")
)
pieces.pre_tokenizer = pre_tokenizers.Whitespace()
pieces.post_processor = processors.TemplateProcessing(
    "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
)
words = PreTrainedTokenizerFast(
    tokenizer_object=pieces,
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
    model_max_length=16,
)
texts = [
    "the cat sat on the mat",
    "a dog ran far",
    "a bird flew over the sea",
    "it is warm",
    "the sea is blue",
    "the cat is red",
]
found = []
with tempfile.TemporaryDirectory() as folder:
    fill(BertModel(BertConfig(**WORDS, **QUIET))).save_pretrained(folder + "/body")
    words.save_pretrained(folder + "/body")

    def model():
        """Words, their mean, a layer."""
        body = models.Transformer(folder + "/body", max_seq_length=12)
        return SentenceTransformer(
            modules=[
                body,
                models.Pooling(16, "mean"),
                fill(models.Dense(16, 8)),
                models.Normalize(),
            ],
            device="cpu",
        )

    pairs = Dataset.from_dict({"anchor": texts[:4], "positive": texts[2:]})
    scored = Dataset.from_dict(
        {"sentence1": texts[:4], "sentence2": texts[2:], "score": [0.1, 0.9, 0.4, 0.6]}
    )
    triples = Dataset.from_dict(
        {"anchor": texts[:4], "positive": texts[1:5], "negative": texts[2:]}
    )
    for kind, data in (
        (losses.MultipleNegativesRankingLoss, pairs),
        (losses.CosineSimilarityLoss, scored),
        (losses.TripletLoss, triples),
        (losses.CoSENTLoss, scored),
    ):
        net = model()
        args = SentenceTransformerTrainingArguments(folder + "/out", max_steps=3, per_device_train_batch_size=4, learning_rate=1e-2, logging_steps=1, report_to=[], use_cpu=True,
                                                    save_strategy="no", disable_tqdm=True, seed=1)  # fmt: skip
        loss = kind(net)
        trainer = SentenceTransformerTrainer(model=net, args=args, train_dataset=data, loss=loss)
        trainer.train()
        found += [line["loss"] for line in trainer.state.log_history if "loss" in line]
        told = net.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        found += [told.sum(), util.cos_sim(told, told).sum()]
    net.save(folder + "/kept")
    again = SentenceTransformer(folder + "/kept", device="cpu")
    found.append(
        abs(
            again.encode(texts, show_progress_bar=False)
            - net.encode(texts, show_progress_bar=False)
        ).max()
        < 1e-6
    )
    found += EmbeddingSimilarityEvaluator(texts[:4], texts[2:], [0.1, 0.9, 0.4, 0.6])(net).values()
    found += TripletEvaluator(texts[:4], texts[1:5], texts[2:])(net).values()
    hits = util.semantic_search(
        net.encode(texts[:2], convert_to_tensor=True),
        net.encode(texts, convert_to_tensor=True),
        top_k=3,
    )
    found += [each["score"] for row in hits for each in row]
    fill(BertForSequenceClassification(BertConfig(**WORDS, **QUIET, num_labels=1))).save_pretrained(
        folder + "/cross"
    )
    words.save_pretrained(folder + "/cross")
    cross = CrossEncoder(folder + "/cross", device="cpu")
    found += cross.predict(
        [(texts[0], texts[1]), (texts[2], texts[3])], show_progress_bar=False
    ).tolist()
    found += [each["score"] for each in cross.rank(texts[0], texts[1:4])]
    found += [
        float(sum(group))
        for group in util.community_detection(told, threshold=0.5, min_community_size=1)
    ][:1]
say(*found)
