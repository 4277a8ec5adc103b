"""Experiments: grids of runs and their statistics, fine-tuning, pre-training, reports."""
