"""A model and a probe to a Snapshot.

    probe ─▶ rendering ─▶ encoding ─▶ layout ─▶ forward ─▶ outcomes ─▶ Snapshot
             text         token ids   batches   log-       rows
                                                likelihoods

    scorer        the steps above for one model and one probe
    rendering     items to text: context and choices
    encoding      text to token ids, split between context and choice
    tokenization  token ids of texts with common beginnings, each beginning tokenized once
    layout        batches of rows, in which common beginnings are read once
    tensors       one batch as tensors, with the attention mask of a tree
    head          log-probabilities from hidden states, without logits that stay in memory
    readout       numbers that are read from a batch, and the scores that they give
    forward       forward passes of batches
    engine        choice of a layout, and scores of all items
    parity        test of a layout on the model itself
    outcomes      log-likelihoods of one item to its outcome
    generation    items whose answers are generated
    sampling      texts that a model generates, each with a seed of its own
    vllm          answers and letters by vLLM on a checkpoint
    vllm_engines  its engines, in this process or in others
    trainer_vllm  answers by the vLLM engine of a trainer
    base_texts    completions by the base model, for drift
    adapters      a model with its adapters switched off
    checkpoints   snapshots of checkpoints, adapters and model ids
    snapshot_cache  snapshots that were made before, by what determines them
    model         facts of a model: vocabulary, context length, wrappers
    processes     sharing of the work among processes
    memory        errors where the memory of a device ends
    isolation     a model and random states restored after scoring

Start with `scorer`.
"""

from forgetwatch.scoring.scorer import Scorer, score

__all__ = ["Scorer", "score"]
