from keras_bert.heads.bilstm_tagging import build_bilstm_tagger as build_bilstm_tagger
from keras_bert.models.bilstm_encoder import build_bilstm_encoder as build_bilstm_encoder
from keras_bert.rewirings.bi_encoder import build_bi_encoder as build_bi_encoder
from keras_bert.rewirings.packed import build_packed as build_packed
from keras_bert.rewirings.split_tagger import split_bilstm_tagger as split_bilstm_tagger
from keras_bert.rewirings.student import take_layers as take_layers
from keras_bert.rewirings.trimmed import build_trimmed as build_trimmed
