"""Models made of the layers of others: packed, trimmed, with fewer layers, two towers, a second loss."""
