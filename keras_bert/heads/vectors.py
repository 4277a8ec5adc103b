"""The encoder alone, whose hidden states are vectors of its tokens."""

from keras_bert.heads.head import Head


class Vectors(Head):
    """No head on top of the encoder."""

    name, layer, reads = "encoder", "embeddings", ("pooled", "sequence")
    architectures = ("BertModel",)
    packs, has_prefix = True, False
    google, peft = "", "FEATURE_EXTRACTION"

    def run(self, layers, encoded, inputs):
        return encoded

    def build(self, encoder, options):
        return encoder
