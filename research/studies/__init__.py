"""The paper's studies: what they compare, at which scale, how they run and what they report."""
