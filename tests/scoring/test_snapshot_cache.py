"""The cache of scored models: what makes a model another model, damaged files, and several processes at once.

The fingerprint of a model in memory: equal for equal weights, another for any other.

The name under which a model takes keys and values: read from its own signature, whatever transformers calls it.
"""

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import SIZES, items, largest_error
from peft import LoraConfig, get_peft_model
from support import PATIENCE, model, probe, tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from forgetwatch import Snapshot, save_snapshot
from forgetwatch.cache import CacheEntry
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import weights_identity as loading
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.scoring.transformers_versions import cache_argument
from forgetwatch.scoring.weights_identity import file_digests, model_fingerprint


def in_shards(folder: Path, network: Any) -> None:
    """Save the weights in a subfolder that only the index names."""
    for file in folder.glob("model*"):
        file.unlink()
    network.save_pretrained(folder, max_shard_size="10KB")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    (folder / "parts").mkdir(exist_ok=True)
    for name in set(index["weight_map"].values()):
        (folder / name).replace(folder / "parts" / name)
    index["weight_map"] = {weight: f"parts/{name}" for weight, name in index["weight_map"].items()}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_weights_in_a_subfolder_belong_to_the_model(saved: Path, loads: list[str]) -> None:
    in_shards(saved, model(tokenizer()))
    one = score_checkpoint(str(saved), probe())
    in_shards(saved, model(tokenizer(), seed=1))
    assert score_checkpoint(str(saved), probe()).checksum != one.checksum
    assert len(loads) == 2


def test_an_index_names_files_wherever_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "elsewhere.weights").write_text("1")
    names = ["../elsewhere.weights", "not there", "\0", 3, "x" * 5000]
    (folder / "a.index.json").write_text(
        json.dumps({"weight_map": {str(n): name for n, name in enumerate(names)}})
    )
    (folder / "b.index.json").write_text('{"weight_map": [')
    (folder / "c.index.json").write_text("[]")
    before = file_digests(folder)
    indices = ["a.index.json", "b.index.json", "c.index.json"]
    assert [line.split()[0] for line in before] == ["../elsewhere.weights", *indices]
    (tmp_path / "elsewhere.weights").write_text("2")
    assert file_digests(folder) != before


@pytest.mark.parametrize(
    "name",
    [
        *(
            "modeling_own.py",
            "parts/helper.py",
            "additional_chat_templates/tools.jinja",
            "chat_template.jinja",
        ),
        *(
            "tokenizer.model",
            "vocab.txt",
            "adapter_model.safetensors",
            "qwen.tiktoken",
            "parts/model.bin",
        ),
    ],
)
def test_every_file_that_can_decide_makes_another_model(tmp_path: Path, name: str) -> None:
    before = file_digests(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("1")
    one = file_digests(tmp_path)
    (tmp_path / name).write_text("2")
    assert before != one != file_digests(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "optimizer.bin",
            "optimizer.safetensors",
            "trainer_state.json",
            "training_args.bin",
            "scheduler.pt",
        ),
        *(
            "README.md",
            "checkpoint-10/model.safetensors",
            "_forgetwatch/run.json",
            "forgetwatch/run.json",
        ),
        *(".cache/huggingface/a.json", "_forgetwatch-1/run.json", "rng_state_0.pth"),
    ],
)
def test_what_a_training_leaves_beside_a_model_changes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("1")
    assert file_digests(tmp_path) == []


def test_links_to_folders_are_followed_and_circles_end(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "model.safetensors").write_text("1")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "parts").symlink_to(tmp_path / "real")
    (folder / "itself").symlink_to(folder)
    os.mkfifo(folder / "pipe.json")
    assert [line.split()[0] for line in file_digests(folder)] == ["parts/model.safetensors"]


def test_adapters_in_a_circle_are_refused(tmp_path: Path, cache: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / one).mkdir()
        config = {"base_model_name_or_path": str(tmp_path / other)}
        (tmp_path / one / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match="is the base of its own base"):
        score_checkpoint(str(tmp_path / "a"), probe())


def test_a_file_of_another_model_under_this_name_is_not_used(
    saved: Path, cache: Path, loads: list[str]
) -> None:
    one = score_checkpoint(str(saved), probe())
    (first,) = cache.glob("*.parquet")
    first.rename(cache.parent / "kept.parquet")
    model(tokenizer(), seed=1).save_pretrained(saved)
    other = score_checkpoint(str(saved), probe())
    (second,) = cache.glob("*.parquet")
    shutil.copy(cache.parent / "kept.parquet", second)
    assert score_checkpoint(str(saved), probe()).checksum == other.checksum != one.checksum
    assert len(loads) == 3
    save_snapshot(one, second)  # a snapshot without a key
    assert score_checkpoint(str(saved), probe()).checksum == other.checksum
    assert len(loads) == 4


def test_a_cached_snapshot_is_the_one_that_was_scored(saved: Path, cache: Path) -> None:
    first, second = (score_checkpoint(str(saved), probe()) for _ in range(2))
    assert second.meta == first.meta
    assert second.table.equals(first.table)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "another file", "folder", "gone"])
def test_whatever_stands_in_the_cache_the_model_is_scored(
    saved: Path, cache: Path, loads: list[str], damage: str
) -> None:
    one = score_checkpoint(str(saved), probe())
    (kept,) = cache.glob("*.parquet")
    data = bytearray(kept.read_bytes())
    data[40:50] = bytes(10)
    kept.unlink()
    if damage == "folder":
        kept.mkdir()
    elif damage != "gone":
        contents = {
            "cut": data[:-20],
            "changed": data,
            "empty": b"",
            "another file": b"PAR1 nothing",
        }
        kept.write_bytes(contents[damage])
    is_refused = damage == "folder"
    with pytest.warns(UserWarning, match="could not be cached") if is_refused else nullcontext():
        again = score_checkpoint(str(saved), probe())
    assert again.checksum == one.checksum
    assert len(loads) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_is_read(saved: Path, cache: Path, loads: list[str]) -> None:
    score_checkpoint(str(saved), probe())
    cache.chmod(stat.S_IRUSR | stat.S_IXUSR)
    score_checkpoint(str(saved), probe())
    assert len(loads) == 1
    cache.chmod(stat.S_IRWXU)


def at_once(count: int, work: Callable[[], None]) -> None:
    """Work in threads that start together; a lock keeps threads apart as it does processes."""
    gate = threading.Barrier(count)
    threads = [threading.Thread(target=lambda: [gate.wait(), work()]) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("damaged", [False, True])
def test_four_at_once_score_a_model_once_and_say_that_they_wait(
    saved: Path, cache: Path, loads: list[str], damaged: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    if damaged:
        score_checkpoint(str(saved), probe())
        (kept,) = cache.glob("*.parquet")
        kept.write_bytes(kept.read_bytes()[:-30])
        loads.clear()
    made: list[Snapshot] = []
    at_once(4, lambda: made.append(score_checkpoint(str(saved), probe())))
    assert len({one.checksum for one in made}) == 1
    assert len(made) == 4
    assert len(loads) == 1
    assert len(list(cache.glob("*.parquet"))) == 1
    said = capfd.readouterr().err.splitlines()
    waiting = f"forgetwatch: another process is scoring {saved} on toy; waiting for its result"
    assert said.count(waiting) <= 3


HOLDER = """
import sys, time
from pathlib import Path
from forgetwatch.cache import CacheEntry
entry = CacheEntry(Path(sys.argv[1]), "k")
with entry.locked(patience=0, on_wait=lambda: None) as locked:
    print(locked, flush=True)
    time.sleep(600)
"""


def test_a_process_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    entry = CacheEntry(tmp_path / "x.parquet", "k")
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(entry.path)], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    with holder, holder.stdout:
        assert holder.stdout.readline() == b"True\n"
        waited: list[bool] = []
        with entry.locked(patience=0.5, on_wait=lambda: waited.append(True)) as locked:
            assert (locked, waited) == (False, [True])
        with entry.locked(patience=PATIENCE, on_wait=holder.kill) as locked:
            assert locked


def test_without_locks_each_process_scores_for_itself(
    saved: Path, cache: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert len(score_checkpoint(str(saved), probe())) == 30
    assert len(loads) == 1


def test_many_owners_of_a_lock_never_overlap(tmp_path: Path) -> None:
    entry = CacheEntry(tmp_path / "x.parquet", "k")
    inside, most, wrong = 0, 0, []

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with entry.locked(patience=PATIENCE, on_wait=lambda: None) as locked:
                if not locked:
                    wrong.append("no lock")
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    at_once(6, work)
    assert (most, wrong) == (1, [])


TOK = tokenizer()


def other_value(network: Any) -> None:
    weight = network.model.layers[1].mlp.up_proj.weight.view(-1)
    weight[77] = torch.nextafter(weight[77], weight[77] + 1)


def exchanged(network: Any) -> None:
    weight = network.model.embed_tokens.weight
    weight[[3, 4]] = weight[[4, 3]].clone()


def exchanged_layers(network: Any) -> None:
    network.model.layers[0], network.model.layers[1] = (
        network.model.layers[1],
        network.model.layers[0],
    )


def other_dtype(network: Any) -> None:
    network.to(torch.bfloat16)


def other_setting(network: Any) -> None:
    network.config.rms_norm_eps *= 2


def buffer(network: Any) -> None:
    network.register_buffer("seen", torch.ones(3))


@pytest.mark.parametrize(
    "change", [other_value, exchanged, exchanged_layers, other_dtype, other_setting, buffer]
)
def test_any_change_of_the_weights_or_settings_is_another_fingerprint(
    change: Callable[[Any], None],
) -> None:
    network = model(TOK)
    assert model_fingerprint(network) == model_fingerprint(model(TOK))
    with torch.no_grad():
        change(network)
    assert model_fingerprint(network) != model_fingerprint(model(TOK))


def test_the_name_of_a_model_does_not_count_and_neither_does_its_mode() -> None:
    network = model(TOK).eval()
    network.config._name_or_path = "elsewhere"
    assert model_fingerprint(network) == model_fingerprint(model(TOK).train())


def test_an_adapter_that_changes_nothing_is_its_base_and_a_trained_one_is_not() -> None:
    adapted = get_peft_model(
        model(TOK), LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"])
    )
    assert model_fingerprint(adapted) == model_fingerprint(model(TOK))
    with torch.no_grad():
        next(weight for name, weight in adapted.named_parameters() if "lora_B" in name)[0, 0] = 1e-3
    assert model_fingerprint(adapted) != model_fingerprint(model(TOK))


def test_the_settings_of_a_trained_adapter_count() -> None:
    found = []
    for alpha in (8, 8, 16):
        settings = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], lora_alpha=alpha)
        torch.manual_seed(0)
        adapted = get_peft_model(model(TOK), settings)
        with torch.no_grad():
            next(weight for name, weight in adapted.named_parameters() if "lora_B" in name).fill_(
                1e-3
            )
        found.append(model_fingerprint(adapted))
    assert found[0] == found[1] != found[2]


def test_a_slice_of_a_flat_buffer_has_the_sums_of_its_copy() -> None:
    flat = torch.arange(101, dtype=torch.float32)
    assert loading._sums(flat[3:]) == loading._sums(flat[3:].clone())


OWN = cache_argument(LlamaForCausalLM)
"""Name in the installed version of transformers."""


class _New(LlamaForCausalLM):  # type: ignore[misc]
    def forward(
        self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any
    ) -> Any:
        assert "past_key_values" not in rest
        return super().forward(
            input_ids=input_ids, position_ids=position_ids, **{OWN: cache}, **rest
        )


class _Old(LlamaForCausalLM):  # type: ignore[misc]
    def forward(
        self,
        input_ids: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        **rest: Any,
    ) -> Any:
        assert "cache" not in rest
        return super().forward(
            input_ids=input_ids, position_ids=position_ids, **{OWN: past_key_values}, **rest
        )


class _Unnamed(_Old):
    def forward(self, *rest: Any, position_ids: Any = None, **named: Any) -> Any:
        return super().forward(*rest, position_ids=position_ids, **named)


class _Refusing(LlamaForCausalLM):  # type: ignore[misc]
    """Its cache has a third name, as after another renaming."""

    def forward(
        self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any
    ) -> Any:
        if cache is not None:
            raise TypeError("unexpected keyword argument 'cache'")
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


class _Swallowing(LlamaForCausalLM):  # type: ignore[misc]
    """Takes the cache without a word and does not use it."""

    def forward(
        self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any
    ) -> Any:
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


class _Warning(LlamaForCausalLM):  # type: ignore[misc]
    def forward(
        self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any
    ) -> Any:
        if cache is not None:
            raise FutureWarning("cache is deprecated")
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


def made(kind: type[LlamaForCausalLM]) -> Any:
    torch.manual_seed(0)
    return kind(LlamaConfig(**SIZES)).eval()


@pytest.mark.parametrize(
    ("kind", "name"), [(_New, "cache"), (_Old, "past_key_values"), (_Unnamed, "past_key_values")]
)
def test_a_prefix_is_shared_under_either_name(kind: Any, name: str) -> None:
    model = made(kind)
    assert cache_argument(kind) == name
    scorer = Scorer(items(), TOK, model, token_budget=128)
    assert largest_error(model, scorer) < 1e-4
    assert (scorer.engine.layout, scorer.engine.fallback_reason) == ("prefix", "")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (_Refusing, "TypeError: unexpected keyword argument 'cache'"),
        (_Swallowing, "shared rows differ from single ones"),
        (_Warning, "FutureWarning: cache is deprecated"),
    ],
)
def test_a_lost_prefix_leaves_a_reason(kind: Any, why: str) -> None:
    model = made(kind)
    scorer = Scorer(items(), TOK, model, token_budget=128)
    assert largest_error(model, scorer) < 1e-4
    assert scorer.engine.layout == "trie"
    assert f"prefix with eager: {why}" in scorer.engine.fallback_reason.replace("sdpa", "eager")
    assert scorer.score(model).meta["why_rows"] == scorer.engine.fallback_reason
