"""Models and tokenizers of checkpoint folders, adapters and model ids, loaded whole in each process.

**Snapshots** of checkpoints, adapters and model ids; each is scored once and cached (`forgetwatch.cache`).

The key is a digest of everything that determines the rows: the model's files (or the hub's commit), the probe's
fingerprint and labels, the scorer and the grading rules with their versions, and the device. A snapshot holds its key
in its metadata, under the checksum: a model is scored again where the file is damaged or that of another model.

Processes that want the same snapshot at once wait for the first of them to score it. The system frees the lock of a
process that ends, in whatever way. Where a file system has no locks, or the folder cannot be written, each process
scores for itself.

**Fingerprint** of a model in memory: equal for equal weights, on any device, in any process.

Two sums over the words of each tensor, each word times an odd number that depends on its place: a tensor that differs
in any bit, or of which two words changed places, has other sums. They are computed where the tensor is, in the time
that reading it takes. Parts that processes hold are each read by the process that holds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
)
from transformers.integrations import deepspeed
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.utils import logging

from forgetwatch.cache import CacheEntry
from forgetwatch.errors import ForgetwatchError, ScoringError, did_you_mean_path
from forgetwatch.extras import install
from forgetwatch.grading.grader import RULES
from forgetwatch.loading import Loading, weights_problem
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, log
from forgetwatch.scoring.adapters import adapter_tensors, changes_its_base
from forgetwatch.scoring.model import (
    UNLIMITED,
    PreTrainedConfig,
    base_model,
    explain_out_of_memory,
    is_sharded,
    unwrapped,
    weight_bytes,
)
from forgetwatch.scoring.processes import all_gather, on_all_processes, on_main_process, world_size
from forgetwatch.scoring.scorer import SCORER, Scorer, versions
from forgetwatch.snapshot import Snapshot

ADAPTER: Final = "adapter_config.json"
"""File that makes a folder one of an adapter."""
_FSDP: Final = "ACCELERATE_USE_FSDP"
"""The variable by which transformers sees a training with FSDP."""
_VOCABULARY: Final = re.compile(
    r"tokenizer(\.[\d.]+)?\.json|vocab\..+|.+\.(model|tiktoken)|tekken\.json"
)
"""Files with the words of a tokenizer."""
_SETTINGS: Final = re.compile(r"tokenizer_config\.json|tokenization_.+\.py")
"""Files of a tokenizer that may need none with words, since it reads bytes or has code of its own."""
_NOT_USED: Final = re.compile(
    r"rotary_emb\.|\.attn\.(masked_)?bias$|position_ids$|^v_head\.|^value_head\."
)
"""Weights that a language model needs not: constants that older versions stored, and the value head of a policy."""
_NO_TOKENIZER: Final = (
    "it has no tokenizer; copy the files of its base's tokenizer into it (tokenizer.json and "
    "tokenizer_config.json)"
)


def load_model(
    given: str, *, loading: Loading = Loading(), tokenizer_of: str | None = None
) -> tuple[nn.Module, Any]:
    """Return the model and tokenizer of a checkpoint folder, adapter folder or model id; on the GPU if there is one.

    It is whole in this process, also inside a training with FSDP or DeepSpeed's ZeRO-3.

    Args:
        given: The checkpoint folder, adapter folder or model id.
        loading: How it is loaded.
        tokenizer_of: Folder or id of the tokenizer that a model saved without one gets; None to refuse it.

    Raises:
        ScoringError: If it cannot be loaded, or does not fit into memory; the message has the cause.
    """
    check_path(given)
    remedy = (
        f"spread it over all GPUs and the CPU (`forgetwatch score {given} --device-map auto`), or free memory; a "
        "training takes the snapshot as its baseline"
    )
    if spreads := loading.device_map is not None:
        remedy = "free memory, or take a smaller or quantized model"
        if find_spec("accelerate") is None:
            raise ScoringError(
                f"--device-map needs the package accelerate: {install('accelerate')}"
            )
    size = partial(size_of, given, loading=loading)
    # One process spreads a model over all GPUs; of several processes each has the current one.
    gpus = (
        [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
        if spreads
        else []
    )
    explained = explain_out_of_memory(
        f"{given}: loading it", weights=size, devices=lambda: gpus, remedy=remedy
    )
    # The size is computed inside the first context too: a model without weights would also be divided.
    with _loading_whole(), explained, ExitStack() as stack:
        spread: dict[str, Any] = {}
        if spreads:
            folder = stack.enter_context(
                TemporaryDirectory(prefix="forgetwatch-", ignore_cleanup_errors=True)
            )
            spread = {"device_map": loading.device_map, "offload_folder": folder}
        model, tokenizer = _load(
            given, loading=loading, spread=spread, tokenizer_of=tokenizer_of or given
        )
        if not spreads:
            model = model.to("cuda" if torch.cuda.is_available() else "cpu")
        weakref.finalize(model, stack.pop_all().close)
    return model.eval(), tokenizer


def _load(
    given: str, *, loading: Loading, spread: dict[str, Any], tokenizer_of: str
) -> tuple[nn.Module, Any]:
    """Return the model and tokenizer; on the CPU without options of transformers that spread it over devices."""
    path = Path(given)
    is_adapter = (path / ADAPTER).is_file()
    if is_adapter and find_spec("peft") is None:
        raise ScoringError(
            f"{given} is an adapter, and loading one needs the package peft: {install('peft')}"
        )
    with _explained(given, passed=(ScoringError, torch.OutOfMemoryError, MemoryError)):
        if is_adapter:
            from peft import PeftModel

            has_own = (path / "tokenizer_config.json").is_file()
            model, tokenizer = _load(
                base_of_adapter(path),
                loading=loading,
                spread=spread,
                tokenizer_of=given if has_own else tokenizer_of,
            )
            with warnings.catch_warnings():
                # PEFT only warns about weights that are missing in the adapter's files, and continues without them.
                warnings.filterwarnings("error", message="Found missing adapter keys")
                model = PeftModel.from_pretrained(model, given, **spread)
            _check_adapter(model, path)
            if has_own:
                tokenizer = pretrained_tokenizer(given, loading=loading)
        else:
            config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
            loaded: Any = _auto_class(config).from_pretrained(
                given,
                dtype="auto",
                trust_remote_code=loading.trust_remote_code,
                output_loading_info=True,
                **spread,
            )
            model, report = loaded
            _check_complete(given, report)
            source = given if has_tokenizer(given) else tokenizer_of
            tokenizer = pretrained_tokenizer(source, loading=loading)
    return model, tokenizer


@contextmanager
def _explained(given: str, *, passed: tuple[type[Exception], ...]) -> Iterator[None]:
    """Name the files in whatever error a loader of foreign files raises in this context, but for those passed."""
    try:
        yield
    except passed:
        raise
    except Exception as error:
        if not Path(given).exists():
            raise _no_model(given, error) from error
        raise ScoringError(
            f"{given}: cannot be loaded as a causal language model with its tokenizer ({error})"
        ) from error


def _no_model(given: str, error: Exception) -> ScoringError:
    near, first = did_you_mean_path(Path(given)), re.split(r"\.\s", str(error))[0]
    return ScoringError(
        f"{given}: no folder here{near}, and as a model id it cannot be loaded ({first})"
    )


@contextmanager
def _loading_whole() -> Iterator[None]:
    """Provide a context in which transformers loads whole models, in each process that does.

    The settings of a training with ZeRO-3 would divide their weights over the processes; those of one with FSDP would
    leave them empty in all but the main process.
    """
    zero3, fsdp = deepspeed._hf_deepspeed_config_weak_ref, os.environ.get(_FSDP)
    deepspeed.unset_hf_deepspeed_config()
    os.environ[_FSDP] = "false"
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = zero3
        if fsdp is None:
            del os.environ[_FSDP]
        else:
            os.environ[_FSDP] = fsdp


def size_of(given: str, *, loading: Loading) -> int:
    """Return the bytes of the weights of a model, without those of adapters."""
    while (Path(given) / ADAPTER).is_file():
        given = base_of_adapter(Path(given))
    return weight_bytes(load_outline(given, loading=loading)[0])


def load_outline(given: str, *, loading: Loading = Loading()) -> tuple[nn.Module, Any]:
    """Return the model without weights, which has its sizes only, and tokenizer of a checkpoint folder or model id."""
    check_path(given)
    with _explained(given, passed=(ScoringError,)):
        config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        with torch.device("meta"):
            model: Any = _auto_class(config).from_config(
                config, dtype=config.dtype, trust_remote_code=loading.trust_remote_code
            )
        tokenizer = pretrained_tokenizer(given, loading=loading)
    return model.eval(), tokenizer


def _auto_class(config: PreTrainedConfig) -> Any:
    """Return the class that loads a model with a language head; texts are put to one that also takes images, too.

    A type that has classes for both is loaded by the one that its files were written by.
    """
    # The code that comes with a model, which is only read here if it is trusted, names the class that it is for.
    for own in (AutoModelForCausalLM, AutoModelForImageTextToText):
        if own.__name__ in (getattr(config, "auto_map", None) or {}):
            return own
    kind = str(config.model_type)
    written_by = set(config.architectures or ())
    takes_images = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
    of_text = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    is_for_images = takes_images is not None and (of_text is None or takes_images in written_by)
    return AutoModelForImageTextToText if is_for_images else AutoModelForCausalLM


def _check_complete(given: str, loading: dict[str, Any]) -> None:
    """Refuse a model with weights that are not in its files, which get random values, or that it does not use."""
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, loading[kind])):
            raise ScoringError(
                f"{given}: {len(names)} weights of the language model are not in its files, {names[0]} among them "
                f"({kind.replace('_keys', '')}); needed a whole causal language model with its head"
            )
    if names := sorted(
        name for name in map(str, loading["unexpected_keys"]) if not _NOT_USED.search(name)
    ):
        remedy = "a config.json of another model or of fewer layers leaves them out"
        if any(".lora_" in name for name in names):
            remedy = (
                "merge the adapter (merge_and_unload) and save the model, or save the adapter alone"
            )
        raise ScoringError(f"{given}: {_unused(names)}; {remedy}")


def _unused(names: Sequence[str]) -> str:
    return f"{len(names)} weights in its files are not used by its model, {names[0]} among them (unexpected)"


def _check_adapter(model: nn.Module, path: Path) -> None:
    """Refuse an adapter with weights that its base has no place for: PEFT leaves them out."""
    from peft import get_peft_model_state_dict

    file = path / "adapter_model.safetensors"
    if file.is_file():
        with safe_open(file, framework="pt") as stored:
            names = {name for name in stored.keys() if ".lora_" in name}  # noqa: SIM118  # no mapping
        if names := names - get_peft_model_state_dict(model).keys():
            raise ScoringError(
                f"{path}: {_unused(sorted(names))}; needed the base that it was trained on"
            )


def check_path(given: str) -> None:
    """Refuse a path at which there is nothing: transformers would look it up as a model id."""
    if given.startswith((".", "/")) and not Path(given).exists():
        raise ScoringError(f"{given}: no such folder{did_you_mean_path(Path(given))}")
    if Path(given).is_dir() and (problem := weights_problem(Path(given))):
        raise ScoringError(f"{given}: {problem}")
    for index in sorted(Path(given).glob("*.index.json")) if Path(given).is_dir() else ():
        try:
            named = sorted(set(map(str, json.loads(index.read_bytes())["weight_map"].values())))
        except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
            continue  # the loader refuses it
        if outside := [
            name for name in named if Path(name).is_absolute() or ".." in Path(name).parts
        ]:
            raise ScoringError(
                f"{index}: names {outside[0]!r:.80}; needed names of files in the same folder"
            )


def base_of_adapter(path: Path) -> str:
    """Return the base that an adapter names, a folder or a model id.

    An error if it names none but itself, or cannot be read.
    """
    try:
        config = json.loads((path / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoringError(f"{path / ADAPTER}: cannot be read ({error})") from error
    base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not base or Path(str(base)).resolve() == path.resolve():
        raise ScoringError(
            f"{path / ADAPTER}: names no base model but itself (base_model_name_or_path: {base!r})"
        )
    return str(base)


def missing_base(path: Path) -> str | None:
    """Return the folder of the base of an adapter, if it is gone.

    None if it is there, or the id of a model, or no adapter is.
    """
    if not (path / ADAPTER).is_file():
        return None
    base = base_of_adapter(path)
    is_path = base.startswith((".", "~", os.sep)) or base.count("/") > 1
    return base if is_path and not Path(base).is_dir() else None


def silence_loading() -> None:
    """Turn off what libraries print of their own when they load a model; for commands, which own their process."""
    logging.disable_progress_bar()
    # PEFT calls it at each adapter.
    warnings.filterwarnings(
        "ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning
    )


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer without its model."""

    tokenize: Callable[[str], Sequence[int]]  # from a text to its token ids, without special tokens
    context: int | None  # longest text that its model can read, in tokens; None if unknown
    chats: bool  # True if it has a chat template


def has_tokenizer(given: str) -> bool:
    """Return True if a folder has files of a tokenizer; also for what is no folder here, such as the id of a model."""
    return not Path(given).is_dir() or _has(given, _VOCABULARY) or _has(given, _SETTINGS)


def pretrained_tokenizer(given: str, *, loading: Loading) -> Any:
    """Return the tokenizer of a checkpoint folder or model id, with a vocabulary; a folder without one is refused.

    The class of some models, such as Qwen's, would be made without words, and Gemma's with an unknown word for every
    text. Whatever transformers raises is passed on.
    """
    if not has_tokenizer(given):
        raise ScoringError(f"{given}: {_NO_TOKENIZER}")
    tokenizer: Any = AutoTokenizer.from_pretrained(
        given, trust_remote_code=loading.trust_remote_code
    )
    # The names are those of the class; one that reads bytes has none.
    named = set((getattr(tokenizer, "vocab_files_names", None) or {}).values())
    if (
        named
        and Path(given).is_dir()
        and not (_has(given, _VOCABULARY) or named & set(os.listdir(given)))
    ):
        raise ScoringError(f"{given}: {_NO_TOKENIZER}")
    return tokenizer


def load_tokenizer(given: str, *, loading: Loading = Loading()) -> LoadedTokenizer:
    """Return the tokenizer of a checkpoint folder or model id; an error with the cause if it cannot be loaded."""
    try:
        tokenizer = pretrained_tokenizer(given, loading=loading)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: no tokenizer can be loaded from it; needed a folder with its files, or a model id "
            f"({' '.join(str(error).split())})"
        ) from error
    try:
        config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        context = getattr(config, "max_position_embeddings", None)
    except Exception:  # a folder with a tokenizer and no model
        context = None
    # Larger numbers are transformers' value for a tokenizer without a limit.
    bound = int(tokenizer.model_max_length) if tokenizer.model_max_length < UNLIMITED else None
    known = [length for length in (context, bound) if length]

    def tokenize(text: str) -> Sequence[int]:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return LoadedTokenizer(tokenize, min(known) if known else None, bool(tokenizer.chat_template))


def _has(folder: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(name) for name in os.listdir(folder))


_PATIENCE: Final = 4 * 3600.0
"""Seconds for which another process that scores the same model is waited for."""
_PATIENCE_TOGETHER: Final = 300.0
"""The same where several processes score together: the others wait in a collective call, which has a time limit."""

DECIDING: Final = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken", ".py")
"""Suffixes of files with weights, configuration, tokenizer, templates or code: their contents determine the rows."""
_IRRELEVANT: Final = re.compile(r"(trainer_state|training_args|optimizer|scheduler|rng_state).*")
"""Files of a training run with such a suffix that change no row."""
_OTHER_FOLDERS: Final = re.compile(
    r"\..*|checkpoint-\d+|_?forgetwatch(_follow)?(\.held)?(-\d+)?|__pycache__"
)
"""Folders beside a model that are no part of it: other checkpoints of its run, records, caches."""


def score_checkpoint(
    given: str,
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
) -> Snapshot:
    """Return the outcomes of a checkpoint, from the cache if these weights were scored on this probe before.

    Args:
        given: A checkpoint folder, adapter folder or model id.
        probe: The items.
        loading: How it is loaded.
        progress: Called with what is done, before the model is loaded, while items are encoded and after each batch;
            never if the outcomes are cached.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    weights = weights_identity(given, loading=loading)
    return score_derived(
        given,
        weights,
        partial(load_model, given, loading=loading),
        probe,
        loading=loading,
        progress=progress,
    )


def score_derived(
    name: str,
    weights: Sequence[Any],
    load: Callable[[], tuple[nn.Module, Any]],
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
) -> Snapshot:
    """Return the outcomes of a model that is made when it is needed, such as a merged one.

    As `score_checkpoint`.

    Programs that need the same outcomes at once wait for the first of them to score, and log one line. The values
    `weights` determine its weights and tokenizer. `load` returns both; it is called, in every process, if the outcomes
    are not cached.
    """
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    settings = [SCORER, RULES, device, versions(), loading.trust_remote_code]
    # Layers on other devices compute with other kernels.
    settings += [] if loading.device_map is None else [loading.device_map]
    entry = CacheEntry.of([list(weights), probe.name, probe.fingerprint, labels, *settings])

    def waiting() -> None:
        log(f"another process is scoring {name} on {probe.name}; waiting for its result")

    with ExitStack() as stack:

        def cached() -> Snapshot | None:
            if (found := entry.read()) is None:
                patience = _PATIENCE if world_size() == 1 else _PATIENCE_TOGETHER
                stack.enter_context(entry.locked(patience=patience, on_wait=waiting))
                found = entry.read()  # another process may have written it in the meantime
            return found

        # The main process decides for all: its disk may be the only one with a cache.
        if (found := on_main_process(cached)) is not None:
            # The same weights may have been scored under another path.
            return replace(found, meta={**found.meta, "model": name})
        if progress:
            progress(Done(count=0, total=len(probe), share=0.0))
        model, tokenizer = on_all_processes(load)
        scorer = Scorer(probe, tokenizer, model, progress=progress)
        snapshot = scorer.score(model, name=name, progress=progress)
        check_finite(snapshot, model, name)
        try:
            on_main_process(lambda: entry.write(snapshot))
        except (OSError, ForgetwatchError) as error:
            warnings.warn(
                f"the snapshot could not be cached in {entry.path.parent} ({error}); set FORGETWATCH_CACHE to a folder "
                "that can be written",
                stacklevel=2,
            )
        return snapshot


def check_finite(snapshot: Snapshot, model: nn.Module, name: str) -> None:
    """Refuse a saved model whose outputs are not finite, with the reason in its weights.

    Raises:
        ScoringError: If more than `MOST_NOT_FINITE` of its outputs are not.
    """
    if not (line := snapshot.not_finite_line):
        return
    reason = "its weights are finite, so it overflows in its dtype; save it in bfloat16 or float32"
    for tensor, weight in model.named_parameters():
        # Weights that are on no device of this process have no values here.
        if not weight.is_meta and (found := non_finite([weight])):
            reason = f"its tensor {tensor} holds {found}; take a checkpoint from before that"
            break
    raise ScoringError(f"{name}: {line}; {reason}")


def non_finite(parts: Iterable[torch.Tensor]) -> str:
    """Return the text on the values in parts of a tensor that are not finite: ``NaN (3 of 4,096 values)``.

    Empty if all are.
    """
    nans = infinities = size = 0
    for part in parts:
        nans, infinities = nans + int(part.isnan().sum()), infinities + int(part.isinf().sum())
        size += part.numel()
    kinds = " and ".join(
        name for name, number in (("NaN", nans), ("infinity", infinities)) if number
    )
    return kinds and f"{kinds} ({nans + infinities:,} of {size:,} values)"


def weights_identity(
    given: str, *, loading: Loading = Loading(), adapters: tuple[Path, ...] = ()
) -> list[str]:
    """Return the identity of weights and tokenizer of a folder or model id: digests of the files, or the hub's commit.

    `adapters` are folders of those that have this model as their base.

    Raises:
        ScoringError: If there is no such model, a file cannot be read, or adapters are each other's base.
    """
    path = Path(given)
    if not path.is_dir():
        check_path(given)
        try:
            config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        except (OSError, ValueError) as error:
            raise _no_model(given, error) from error
        return [given, str(getattr(config, "_commit_hash", None))]
    digests = file_digests(path)
    if (path / ADAPTER).is_file():
        if path.resolve() in adapters:
            raise ScoringError(
                f"{path / ADAPTER}: this adapter is the base of its own base; needed a model as base"
            )
        base = base_of_adapter(path)
        digests += weights_identity(base, loading=loading, adapters=(*adapters, path.resolve()))
    return digests


def is_deciding(relative: str) -> bool:
    """Return True if a file of a model, by its path in the model's folder with ``/``, can decide the rows."""
    *folders, name = relative.split("/")
    return (
        Path(name).suffix in DECIDING
        and not _IRRELEVANT.fullmatch(name)
        and not any(_OTHER_FOLDERS.fullmatch(folder) for folder in folders)
    )


def file_digests(folder: Path) -> list[str]:
    """Return the relative path and SHA-256 of each file of a model that can decide its rows, sorted.

    Those are the files below the folder with weights, configuration, tokenizer, templates or code, and those that an
    index of shards names, wherever they are. One that cannot be read is an error.
    """
    digests = []
    for file in sorted({*deciding_files(folder), *_indexed(folder)}):
        try:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise ScoringError(f"{file}: cannot be read ({error.strerror})") from error
        digests.append(f"{Path(os.path.relpath(file, folder)).as_posix()} {digest}")
    return digests


def deciding_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a model's folder whose suffix says that they can decide; links to folders are followed."""
    seen: set[str] = set()
    for path, folders, names in os.walk(folder, followlinks=True):
        # A link may lead back to a folder above.
        if (real := os.path.realpath(path)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not _OTHER_FOLDERS.fullmatch(name)]
        for name in names:
            file = Path(path, name)
            if is_deciding(name) and file.is_file():
                yield file


def _indexed(folder: Path) -> Iterator[Path]:
    """Yield the shards that the folder's indices name."""
    for index in folder.glob("*.index.json"):
        try:
            named = json.loads(index.read_bytes())["weight_map"].values()
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue  # the loader refuses it
        for name in set(map(str, named)):
            with suppress(OSError, ValueError):  # a name too long, or with a null byte
                if (file := folder / name).is_file():
                    yield file


_CHUNK: Final = 2**20
"""Words of 8 bytes that are read at a time."""
_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_WRITTEN: Final = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
"""Settings that loading or saving a model sets, and that change no outcome; each weight has its dtype."""
_OF_FILES: Final = (
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "peft_version",
)
"""Settings of an adapter on its files; a set of modules has another order in each process."""
_WRAP: Final = 2**64


def model_fingerprint(model: nn.Module) -> str:
    """Return the SHA-256 (64 hex digits) over the weights, buffers and configuration of a model.

    An adapter that changes nothing, or is switched off, does not count: the model is its base.

    Raises:
        ScoringError: If weights are on no device of this process, so that they cannot be read.
    """
    model = unwrapped(model)
    is_changed = changes_its_base(model)
    own = set[int]() if is_changed else adapter_tensors(model)
    digest = partial(_digest, model if is_changed else base_model(model), without=own)
    parts = all_gather(digest) if is_sharded(model) else [digest()]
    # What an adapter does beside its weights is in no setting of the model.
    adapters = _adapters(model) if is_changed else []
    config = getattr(model, "config", None)
    settings: dict[str, Any] = {} if config is None else config.to_dict()
    named = {name: value for name, value in settings.items() if name not in _WRITTEN}
    whole = [
        parts,
        adapters,
        str(sorted(named.items(), key=str)),
        str(getattr(config, "_attn_implementation", "")),
    ]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _adapters(model: nn.Module) -> list[str]:
    """Return the settings of the adapters that change what they do, in an order of their own."""
    found = []
    for name, config in sorted(getattr(model, "peft_config", {}).items()):
        values = config.to_dict() if hasattr(config, "to_dict") else {"config": str(config)}
        kept = {
            key: sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
            for key, value in sorted(values.items())
            if key not in _OF_FILES
        }
        found.append(json.dumps([name, kept]))
    return [*found, str(getattr(model, "active_adapters", ""))]


@torch.no_grad()
def _digest(model: nn.Module, *, without: Collection[int]) -> str:
    """Return the digest of the parts that this process holds, without the tensors of some ids."""
    found = hashlib.sha256()
    tensors = dict(_tensors(model, without))
    if any(tensor.is_meta for tensor in tensors.values()):
        raise ScoringError(
            "some weights are on no device of this process; needed all of them for a fingerprint"
        )
    for name, tensor in tensors.items():
        plain = name.replace(".base_layer.", ".").replace(".original_module.", ".")
        found.update(f"{plain} {tuple(tensor.shape)} {tensor.dtype} {_sums(tensor)}\n".encode())
    return found.hexdigest()


def _tensors(model: nn.Module, without: Collection[int]) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, part that is here) of each weight and buffer, and of what a quantised weight keeps beside itself."""
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if id(weight) in without:
            continue
        part = getattr(weight, "ds_tensor", weight)  # ZeRO-3
        yield name, part.to_local() if hasattr(part, "to_local") else part  # FSDP 2
        state = getattr(weight, "quant_state", None)
        while state is not None:
            yield from (
                (f"{name}.{own}", value)
                for own, value in vars(state).items()
                if isinstance(value, Tensor)
            )
            name, state = (
                f"{name}.state2",
                getattr(state, "state2", None),
            )  # its scales may be quantised too


def _sums(tensor: Tensor) -> tuple[int, ...]:
    data = tensor.detach().contiguous().reshape(-1)
    words = data.view(torch.uint8) if data.numel() else data.to(torch.uint8)
    if rest := -words.numel() % 8:
        words = torch.cat([words, words.new_zeros(rest)])
    if words.storage_offset() % 8:  # a slice of a flat buffer
        words = words.clone()
    whole = words.view(torch.int64)
    odd = 2 * torch.arange(min(_CHUNK, len(whole)), device=whole.device) + 1
    sums = [0] * len(_FACTORS)
    for start in range(0, len(whole), _CHUNK):
        part = whole[start : start + _CHUNK]
        mixed = part * odd[: len(part)]
        # The two sums see the low and the high bits of a product, and a chunk's place.
        for at, value in enumerate((mixed.sum(), (mixed ^ (mixed >> 29)).sum())):
            sums[at] = ((sums[at] + int(value)) * _FACTORS[at] + 1) % _WRAP
    return tuple(sums)
