from keras_bert.training.batch_source import BatchSource as BatchSource
from keras_bert.training.bucketing import Batches as Batches
from keras_bert.training.input_pipeline import Phases as Phases
from keras_bert.training.input_pipeline import Stream as Stream
from keras_bert.training.packed_batches import PackedBatches as PackedBatches
from keras_bert.training.pair_bucketing import PairBatches as PairBatches
from keras_bert.training.tower_bucketing import TowerBatches as TowerBatches
