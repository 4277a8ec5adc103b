from keras_bert.exporting.answerer import Answerer as Answerer
from keras_bert.exporting.onnx_model import Graph as Graph
