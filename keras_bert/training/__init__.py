"""Training: optimizer, losses, the loop."""
