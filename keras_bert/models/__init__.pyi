from keras_bert.models.encoder import run_encoder as run_encoder
from keras_bert.models.graph_comparison import Family as Family
from keras_bert.models.graph_comparison import own_layers as own_layers
from keras_bert.rewirings.joined import build_bi_encoder as build_bi_encoder
from keras_bert.rewirings.joined import take_layers as take_layers
from keras_bert.rewirings.trimmed import build_packed as build_packed
from keras_bert.rewirings.trimmed import build_trimmed as build_trimmed
