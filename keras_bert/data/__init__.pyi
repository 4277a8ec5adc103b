from keras_bert.data.batch_source import BatchSource as BatchSource
from keras_bert.data.batch_source import Phases as Phases
from keras_bert.data.batch_source import Stream as Stream
from keras_bert.data.bucketing import Batches as Batches
from keras_bert.data.bucketing import token_batches as token_batches
from keras_bert.data.packed_batches import PackedBatches as PackedBatches
from keras_bert.data.pair_bucketing import PairBatches as PairBatches
from keras_bert.data.pair_bucketing import TowerBatches as TowerBatches
