"""The models that BERT was compared with: ELMo's language model, BiLSTM classifiers, BiDAF."""
