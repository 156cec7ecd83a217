"""A model and a probe to a Snapshot.

    probe ─▶ encoding ─▶ layout ─▶ forward ─▶ readout ─▶ Snapshot
             token ids   batches   log-       rows
                                   likelihoods

    scorer        the steps above for one model and one probe
    encoding      items to text and token ids, split between context and choice
    layout        batches of rows, in which common beginnings are read once, and their tensors
    head          logits at the positions that are needed, in fp32
    readout       numbers that are read from a batch, the scores that they give, and the outcome of an item
    forward       forward passes of batches
    engine        choice of a layout, and scores of all items
    parity        test of a layout on the model itself
    generation    texts that a model generates, each with a seed of its own, and items that they answer
    loading       checkpoint folders, adapters and model ids: loaded, fingerprinted, scored once by what determines them
    adapters      adapters of PEFT switched off, what they change, and the start of a run with them
    model         facts of a model; contexts that leave it, and all random states, as they were; versions
    processes     sharing of the work among processes
    slices        a scorer that may end before its last item

Start with `scorer`.
"""

from forgetwatch.scoring.adapters import adapter_start, adapters_off, holds_its_base
from forgetwatch.scoring.encoding import Encoded, Ids, encode, encode_prompts, tokenizer_settings, tokenizer_state
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.generation import (
    ModelGenerator,
    Sample,
    check_generated,
    end_tokens,
    generation_obstacle,
    sample,
    seeds_of,
)
from forgetwatch.scoring.layout import Layout
from forgetwatch.scoring.loading import (
    ADAPTER,
    base_of_adapter,
    deciding_files,
    file_digests,
    has_tokenizer,
    is_deciding,
    load_model,
    load_outline,
    load_tokenizer,
    missing_base,
    model_fingerprint,
    non_finite,
    pretrained_tokenizer,
    score_checkpoint,
    score_derived,
    silence_loading,
    size_of,
    weights_identity,
)
from forgetwatch.scoring.model import (
    CPU_TOKENS,
    CUDA_TOKENS,
    ModelInfo,
    base_model,
    check_arguments,
    is_exact,
    is_sharded,
    random_states,
    without_wrappers,
)
from forgetwatch.scoring.processes import (
    all_gather,
    failed_together,
    joined_group,
    on_all_processes,
    on_main_process,
    rank,
    world_size,
)
from forgetwatch.scoring.readout import Beside, Scores, check_finite_scores
from forgetwatch.scoring.scorer import CANNOT_GENERATE, SCORER, Scorer, execution, model_name, score, versions
from forgetwatch.scoring.slices import SlicedScorer
