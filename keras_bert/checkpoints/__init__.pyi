from keras_bert.checkpoints.folder import find as find
from keras_bert.checkpoints.loaded import model_identity as model_identity
from keras_bert.checkpoints.tokenizer_files import read_tokenizer as read_tokenizer
from keras_bert.metadata import Metadata as Metadata
