"""Training: optimizer, losses, training loop."""
