"""A Comparison or Trajectory to what people and programs read. Pure: nothing here measures or loads anything.

terminal   tables of 80 columns       as_json    documents for programs
plots      pictures                   trackers   rows for W&B, TensorBoard and others
"""
