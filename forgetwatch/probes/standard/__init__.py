"""How the shipped probe `standard` is made: one file a category, from tables of facts and from computation."""
