from keras_bert.baselines.bidaf import build_bidaf as build_bidaf
from keras_bert.baselines.bilm import build_bilm as build_bilm
from keras_bert.baselines.bilstm_classifier import build_bilstm_classifier as build_bilstm_classifier
from keras_bert.baselines.loaded import load as load
from keras_bert.baselines.models import describe as describe
