"""Experiments: grid searches and their statistics, fine-tuning, pre-training and reports."""
