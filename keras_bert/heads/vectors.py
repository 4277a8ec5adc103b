"""The encoder alone, whose hidden states are vectors of its tokens."""

from keras_bert.heads import answers
from keras_bert.heads.head import Head


class Vectors(Head):
    """No head on top of the encoder."""

    name, layer, reads = "encoder", "embeddings", ("pooled", "sequence")
    architectures = ("BertModel",)
    packs, has_prefix, is_encoder = True, False, True
    google, peft = "", "FEATURE_EXTRACTION"
    text_options = ("pooling", "layers", "normalize", "rows_together")

    answer = staticmethod(answers.embedding)

    def run(self, layers, encoded, inputs):
        return encoded

    def build(self, encoder):
        return encoder

    def signature_builder(self, description):
        from keras_bert.heads.embedding_signatures import embedder

        return embedder
