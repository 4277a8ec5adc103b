from keras_bert.exporting.onnx_model import Graph as Graph
