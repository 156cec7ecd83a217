"""A model and a probe to a Snapshot.

    probe ─▶ encoding ─▶ layout ─▶ forward ─▶ readout ─▶ Snapshot
             token ids   batches   log-       rows
                                   likelihoods

    scorer             the steps above for one model and one probe
    encoding           items to text and token ids, split between context and choice
    layout             batches of rows, in which common beginnings are read once, and their tensors
    head               logits at the positions that are needed, in fp32
    readout            numbers that are read from a batch, and the scores that they give
    forward            forward passes of batches
    engine             choice of a layout, and scores of all items
    parity             test of a layout on the model itself
    generation         texts that a model generates, each with a seed of its own
    model_loading      models of checkpoint folders, adapters and model ids
    tokenizer_loading  their tokenizers
    cached_score       snapshots of such models, each scored once
    weights_identity   fingerprints in memory, digests of files
    adapters           adapters of PEFT switched off, and the start of a run with them
    model              facts of a model; blocks that leave it and all random states as they were
    transformers_versions  what differs between versions of transformers
    kept_state         what a forward pass changes in modules, put back
    processes          sharing of the work among processes
    slices             a scorer that may end before its last item

Start with `scorer`.
"""
