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

from forgetwatch.scoring.base_texts import check_completions, completion_logprobs, read_under, sample_completions
from forgetwatch.scoring.checkpoints import (
    ADAPTER,
    base_of_adapter,
    load_model,
    load_outline,
    missing_base,
    non_finite,
    not_finite_explained,
    score_by_main_process,
    score_checkpoint,
    score_derived,
    score_with_vllm,
    silence_loading,
    weights_identity,
)
from forgetwatch.scoring.encoding import (
    Encoded,
    Ids,
    encode,
    encode_prompts,
    has_tokenizer,
    load_tokenizer,
    pretrained_tokenizer,
    tokenizer_settings,
)
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.forward import ForwardPass
from forgetwatch.scoring.generation import Generated, GeneratedItems, Generator, ModelGenerator, check_generated
from forgetwatch.scoring.head import Rule, head_in_fp32, replaced
from forgetwatch.scoring.isolation import isolated, mask_attentions, maskable, random_states
from forgetwatch.scoring.layout import (
    BATCH_COST,
    KEYS,
    LEAST_BATCH_COST,
    PREFIX_FACTOR,
    SMALLEST,
    Batch,
    Layout,
    Row,
    by_prefix,
    plan,
)
from forgetwatch.scoring.memory import memory_explained
from forgetwatch.scoring.model import (
    CPU_TOKENS,
    CUDA_TOKENS,
    ModelInfo,
    attention_of,
    base_model,
    check_arguments,
    is_sharded,
    unwrapped,
)
from forgetwatch.scoring.outcomes import decide, is_free_correct, lengths, option_mass
from forgetwatch.scoring.processes import (
    all_gather,
    failed_together,
    joined_group,
    on_all_processes,
    on_main_process,
    process_count,
    rank,
)
from forgetwatch.scoring.readout import Scores
from forgetwatch.scoring.rendering import render, render_prompt
from forgetwatch.scoring.sampling import generation_obstacle
from forgetwatch.scoring.scorer import CANNOT_GENERATE, Scorer, score, versions
from forgetwatch.scoring.snapshot_cache import DECIDING, CacheEntry, deciding_files, file_digests, is_deciding
from forgetwatch.scoring.tensors import tensors_of, tree_options
from forgetwatch.scoring.tokenization import tokenize_continued
from forgetwatch.scoring.trainer_vllm import TrainerGenerator
from forgetwatch.scoring.vllm import VllmGenerator, VllmLetters
from forgetwatch.scoring.vllm_engines import Engines
