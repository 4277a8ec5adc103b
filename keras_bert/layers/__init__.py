"""Layers built only on `keras.ops`. Importing this package registers them, so that `.keras` files load."""

from keras_bert.layers.attention import MultiHeadAttention
from keras_bert.layers.composite import Composite, Dense
from keras_bert.layers.dropout import Dropout
from keras_bert.layers.embeddings import BertEmbeddings, PositionIds, ScaledEmbeddings, TokenEmbedding
from keras_bert.layers.head_layers import (
    Discriminator,
    FoldChoices,
    MaskedLMTransform,
    MultiLabelDense,
    OutputBias,
    Pooler,
    SentencePooling,
    SigmoidDense,
    UnfoldChoices,
    UnfoldPassages,
    UnitLength,
)
from keras_bert.layers.layer_norm import LayerNorm
from keras_bert.layers.masks import AttentionMask, FirstTokens, PackedMask
from keras_bert.layers.transformer import DecoderBlock, FeedForward, TransformerBlock
from keras_bert.layers.windows import LogMeanExpOfWindows, MeanOfWindows, Windows

__all__ = [
    "AttentionMask",
    "BertEmbeddings",
    "Composite",
    "DecoderBlock",
    "Dense",
    "Discriminator",
    "Dropout",
    "FeedForward",
    "FirstTokens",
    "FoldChoices",
    "LayerNorm",
    "LogMeanExpOfWindows",
    "MaskedLMTransform",
    "MeanOfWindows",
    "MultiHeadAttention",
    "MultiLabelDense",
    "OutputBias",
    "PackedMask",
    "Pooler",
    "PositionIds",
    "ScaledEmbeddings",
    "SentencePooling",
    "SigmoidDense",
    "TokenEmbedding",
    "TransformerBlock",
    "UnfoldChoices",
    "UnfoldPassages",
    "UnitLength",
    "Windows",
]
