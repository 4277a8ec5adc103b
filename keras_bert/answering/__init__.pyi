from keras_bert.answering.answerer import Answerer as Answerer
