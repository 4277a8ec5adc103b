from keras_bert.exporting.onnx_graph import Graph as Graph
