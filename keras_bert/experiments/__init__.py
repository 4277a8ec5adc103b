"""Many runs of one thing: grids, seeds, their statistics and tables."""
