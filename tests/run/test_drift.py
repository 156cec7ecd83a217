"""Drift of a run from its base, measured at the looks.

The drift of each look is kept with the look: read from the run folder, and shown by every report.

Completions by the base: sampled from its own distribution, stored in a file, without a trace on the model.

What the baseline of a run with adapters is: the base, whatever the adapter itself changes before the first step.
"""

import json
import math
import random
import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pages import detail_of, printed
from pages import table as table_of
from support import log_likelihood, model, probe, tokenizer, trained
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Trajectory, Watch, compare, load_snapshot
from forgetwatch.comparing.document import comparison_json, trajectory_json
from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.measures.base_drift import (
    DRIFT,
    Floor,
    LookDrift,
    drift_json,
    drift_row,
    read_drift,
    stored_drift,
)
from forgetwatch.metrics.divergence import Drift
from forgetwatch.progress import Done
from forgetwatch.report.html import run_page
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.pictures import svg
from forgetwatch.run.completions import (
    SCHEMA,
    Completions,
    Reading,
    read_completions,
    save_completions,
)
from forgetwatch.run.drift import check_completions, read_under, sample_completions
from forgetwatch.run.drift_prompts import drift_prompts
from forgetwatch.run.run_drift import RunDrift, sample_base
from forgetwatch.run_folder.description import Description
from forgetwatch.scoring.encoding import encode

pytestmark = pytest.mark.usefixtures("without_pictures")

TOK = tokenizer()
ROLES = ("user", "assistant", "user")


class Killed(TrainerCallback):
    """Ends the run at step 5, as if it were killed."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 5:
            raise KeyboardInterrupt


def drifts(run: Any) -> dict[int, tuple[float, float]]:
    """KL after prompts of the probe and of the training examples, by step, as the trainer logged them."""
    rows = [row for row in run.state.log_history if "eval_forget/all/kl_probe" in row]
    return {
        row["step"]: (row["eval_forget/all/kl_probe"], row["eval_forget/all/kl_training"])
        for row in rows
    }


def watched() -> ForgetWatchCallback:
    return ForgetWatchCallback(probe(), every=3, log="full", drift=True, share_text=True)


def test_the_base_has_not_moved_and_training_moves_it_and_nothing_else(tmp_path: Path) -> None:
    plain = trained(tmp_path / "a")
    run = trained(tmp_path / "b", callbacks=[watched()])
    found = drifts(run)
    assert sorted(found) == [0, 3, 6]
    assert found[0] == (0.0, 0.0)
    assert found[6][1] > found[3][1] > 0  # the training prompts move most: they are what is trained
    pairs = zip(run.model.parameters(), plain.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert {key for row in run.state.log_history for key in row if "overlap" in key} == {
        "eval_forget/all/overlap_probe",
        "eval_forget/all/overlap_training",
    }


def test_resume_keeps_the_completions_also_from_the_checkpoint(tmp_path: Path) -> None:
    options = {"steps": 6, "save_strategy": "steps", "save_steps": 2}
    whole = trained(tmp_path / "a", callbacks=[watched()], **options)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "b", callbacks=[watched(), Killed()], **options)
    (tmp_path / "b" / "_forgetwatch" / "completions.parquet").unlink()
    again = trained(tmp_path / "b", callbacks=[watched()], **options, resume=True)
    assert drifts(again) == drifts(whole)
    carried = read_completions(
        tmp_path / "b" / "checkpoint-6" / "forgetwatch" / "completions.parquet"
    )
    assert (
        carried.checksum
        == read_completions(tmp_path / "a" / "_forgetwatch" / "completions.parquet").checksum
    )


@pytest.mark.parametrize(
    ("example", "prompt"),
    [
        ({"prompt": "w1 w2"}, "w1 w2"),
        ({"prompt": [{"role": "user", "content": "w1"}]}, "user : w1 assistant :"),
        ({"prompt_ids": [20, 21], "chosen_ids": [3]}, [20, 21]),
        ({"input_ids": [20, 21, 22, 23], "completion_mask": [0, 0, 0, 1]}, [20, 21, 22]),
        ({"input_ids": [20, 21, 22, 23]}, [20, 21]),
        ({"text": "w1 w2 w3 w4"}, "w1 w2"),
        (
            {
                "messages": [
                    {"role": role, "content": word}
                    for role, word in zip(ROLES, ("w1", "w2", "w3"), strict=True)
                ]
            },
            "user : w1 assistant :",
        ),
        ({"prompt_input_ids": [20, 21], "input_ids": [20, 21, 22]}, [20, 21]),
        ({"input_ids": [20, 21, 22, 23], "assistant_masks": [0, 1, 0, 1]}, [20]),
        ("w1 w2 w3 w4", "w1 w2"),
    ],
)
def test_a_training_prompt_ends_before_the_first_trained_token(example: Any, prompt: Any) -> None:
    found = drift_prompts(probe(), [example], model(TOK), TOK)["training"]
    assert found == [tuple(TOK(prompt)["input_ids"] if isinstance(prompt, str) else prompt)]


def test_examples_that_can_only_be_iterated_give_no_training_prompts() -> None:
    assert set(drift_prompts(probe(), iter([{"prompt": "w1"}]), model(TOK), TOK)) == {"probe"}
    assert set(drift_prompts(probe(), None, model(TOK), TOK)) == {"probe"}


def test_conversations_that_the_template_refuses_give_no_training_prompts() -> None:
    refusing = tokenizer()
    refusing.chat_template = "{{ raise_exception('roles must alternate') }}"
    examples = [{"prompt": [{"role": "user", "content": "w1"}]}]
    assert set(drift_prompts(probe(), examples, model(TOK), refusing)) == {"probe"}


class Counting:
    """A tokenizer that counts the texts it is given."""

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, texts: Any, **options: Any) -> Any:
        self.texts += 1 if isinstance(texts, str) else len(texts)
        return TOK(texts, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(TOK, name)


def test_prompts_of_a_large_probe_are_chosen_before_they_are_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forgetwatch.run.drift_prompts.PROMPTS", 64)  # the tests have fewer
    large = probe(items=400)
    everything = [one.context for one in encode(large, TOK, max_length=512)]
    counting = Counting()
    found = drift_prompts(large, None, model(TOK), counting)["probe"]
    assert found == [everything[index * 400 // 64] for index in range(64)]
    assert counting.texts < 64 * 8


def test_examples_that_draw_random_numbers_leave_those_of_the_training_as_they_are() -> None:
    class Drawing:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> str:
            return f"w{1 + int(torch.rand(1) * 5)} w2 w3 w4"

    network, before = model(TOK), torch.random.get_rng_state()
    found = sample_base(network, TOK, probe(), Drawing(), token_budget=None)
    assert "training" in found.sets
    assert torch.equal(torch.random.get_rng_state(), before)


EXAMPLES = [{"prompt": f"w{n} w{n + 1} w{n + 2}"} for n in range(12)]


HARD = LookDrift(
    completions=2,
    tokens=5,
    kl_sampled=math.inf,
    kl_sampled_se=math.nan,
    overlap=0.5,
    overlap_se=0.1,
    kl_summed=0.25,
    kl_summed_se=0.05,
    floor=Floor(kl_sampled=-1e-9, kl_summed=0.0),
)
WHOLE = stored_drift({"probe": HARD})["probe"]


def moved(network: Any, size: float = 0.02) -> Any:
    """The model with other weights, as after a step of training."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(size * torch.randn(weight.shape, generator=generator))
    return network


def watched_of_drift_kept(folder: Path, **options: Any) -> Watch:
    """A run of two looks after the baseline, in a loop of one's own."""
    network, watch = (
        model(TOK),
        Watch(probe(), folder, **{"drift": True, "examples": EXAMPLES, **options}),
    )
    watch.look(network, TOK, step=0)
    for step in (2, 4):
        watch.look(moved(network), TOK, step=step)
    watch.run.close()
    return watch


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    watched_of_drift_kept(folder)
    return folder


def kls(drift: dict[int, Any]) -> dict[int, dict[str, tuple[float, float]]]:
    return {
        step: {name: (found.kl_sampled, found.kl_summed) for name, found in sets.items()}
        for step, sets in drift.items()
    }


def test_a_loop_of_ones_own_has_the_drift_of_each_look_and_the_run_folder_keeps_it(
    tmp_path: Path,
) -> None:
    watch = watched_of_drift_kept(tmp_path)
    made, read = watch.trajectory().drift, Trajectory.from_run(tmp_path).drift
    assert sorted(made) == [0, 2, 4]
    assert {name for sets in made.values() for name in sets} == {"probe", "training"}
    assert kls(made)[0] == {"probe": (0.0, 0.0), "training": (0.0, 0.0)}
    for name in ("probe", "training"):
        assert made[4][name].kl_summed > made[2][name].kl_summed > 0
    assert kls(read) == kls(made)
    assert (tmp_path / "_forgetwatch" / "completions.parquet").is_file()
    assert Description.read(tmp_path / "_forgetwatch").completions == watch.run.drift.checksum


def test_a_run_in_a_loop_of_ones_own_resumes_with_the_drift_of_every_look(
    run: Path, tmp_path: Path
) -> None:
    network, watch = model(TOK), Watch(probe(), tmp_path, drift=True, examples=EXAMPLES)
    watch.look(network, TOK, step=0)
    watch.look(moved(network), TOK, step=2)
    watch.run.close()
    again = Watch(probe(), tmp_path, drift=True, resume=True)
    again.look(moved(network), TOK, step=4)
    again.run.close()
    assert kls(again.trajectory().drift) == kls(Trajectory.from_run(run).drift)


def test_without_its_completions_a_resumed_run_says_so_and_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched_of_drift_kept(tmp_path)
    (tmp_path / "_forgetwatch" / "completions.parquet").unlink()
    again = Watch(probe(), tmp_path, drift=True, resume=True)
    again.look(moved(model(TOK)), TOK, step=6)
    again.run.close()
    assert sorted(Trajectory.from_run(tmp_path).drift) == [0, 2, 4]
    assert (
        "the completions of the base (completions.parquet) are gone: later looks have no drift"
        in (capfd.readouterr().err)
    )


def test_a_resume_without_drift_leaves_the_completions_to_a_later_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched_of_drift_kept(tmp_path)
    for drift, step in ((False, 6), (True, 8)):
        again = Watch(probe(), tmp_path, drift=drift, resume=True)
        again.look(moved(model(TOK)), TOK, step=step)
        again.run.close()
    assert sorted(Trajectory.from_run(tmp_path).drift) == [0, 2, 4, 8]
    assert "later looks have no drift" not in capfd.readouterr().err


def test_a_resume_takes_the_completions_of_its_own_run_alone_and_replaces_others(
    run: Path, tmp_path: Path
) -> None:
    watched_of_drift_kept(tmp_path / "other", examples=None)
    folder, carried = tmp_path / "other" / "_forgetwatch", run / "_forgetwatch"
    drift, own = RunDrift(wanted=True), read_completions(carried / "completions.parquet").checksum
    drift.resume([folder], checksum=own, token_budget=None)
    assert drift.completions is None
    drift.resume([folder, carried], checksum=own, token_budget=None)
    assert drift.checksum == own
    drift.save(folder)
    assert read_completions(folder / "completions.parquet").checksum == own


def test_a_run_that_began_without_drift_says_so_when_a_resume_wants_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watched_of_drift_kept(tmp_path, drift=False)
    Watch(probe(), tmp_path, drift=True, resume=True).run.close()
    assert (
        "the run has no completions of its base (completions.parquet): later looks have no drift"
        in (capfd.readouterr().err)
    )


def test_reports_show_the_drift_of_early_looks_where_the_last_one_has_none(tmp_path: Path) -> None:
    watched_of_drift_kept(tmp_path)
    again = Watch(probe(), tmp_path, resume=True)
    again.look(moved(model(TOK)), TOK, step=6)
    again.run.close()
    trajectory = Trajectory.from_run(tmp_path)
    page = run_page(trajectory)
    section = page[page.index('<h3 id="drift">') :].split("<h3")[1]
    assert "<svg" in section
    assert "At the last look it was not measured." in section
    assert "4, training prompts" in section
    assert "4, training prompts" in comparison_markdown(
        trajectory.comparisons[-1], trajectory=trajectory
    )


def test_a_run_without_drift_has_none_anywhere(tmp_path: Path) -> None:
    watch = watched_of_drift_kept(tmp_path, drift=False)
    trajectory = Trajectory.from_run(tmp_path)
    assert watch.run.drift.checksum is None
    assert trajectory.drift == {}
    assert not (tmp_path / "_forgetwatch" / "completions.parquet").exists()
    assert [look["drift"] for look in trajectory_json(trajectory)["looks"]] == [None, None]
    assert '<h3 id="drift">' not in run_page(trajectory)
    assert "Drift from the base" not in comparison_markdown(
        trajectory.comparisons[-1], trajectory=trajectory
    )


@pytest.mark.parametrize(
    ("examples", "line"),
    [
        (None, "no training examples are given"),
        (iter(EXAMPLES), "the training examples give no prompts"),
        ([(1, 2)] * 4, "the training examples give no prompts"),
    ],
)
def test_without_training_prompts_there_is_the_probe_alone_and_a_line_says_so(
    examples: Any, line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = watched_of_drift_kept(tmp_path, examples=examples)
    assert [set(sets) for sets in watch.trajectory().drift.values()] == [{"probe"}] * 3
    assert (
        f"drift: {line}; it is measured after the prompts of the probe alone"
        in capfd.readouterr().err
    )


def test_json_has_the_estimators_of_each_set_with_their_errors_and_the_floor(run: Path) -> None:
    trajectory = Trajectory.from_run(run)
    document = json.loads(json.dumps(trajectory_json(trajectory), allow_nan=False))
    for look in document["looks"]:
        assert set(look["drift"]) == {"probe", "training"}
        for found in look["drift"].values():
            assert set(found) == {
                *(
                    "completions",
                    "tokens",
                    "kl_sampled",
                    "kl_sampled_se",
                    "kl_summed",
                    "kl_summed_se",
                ),
                *("overlap", "overlap_se", "floor"),
                *("first_token_kept", "first_token_kept_se", "kl_first_share"),
            }
            assert abs(found["floor"]["kl_sampled"]) < 1e-5
            assert 0 <= found["floor"]["kl_summed"] < 1e-5
    assert document["looks"][1]["drift"] == comparison_json(trajectory.comparisons[2])["drift"]
    assert "drift" not in document["looks"][1]["comparison"]["after"]


def test_page_markdown_and_tables_show_the_drift(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forgetwatch.report.html.svg", svg)  # here with its pictures
    trajectory = Trajectory.from_run(run)
    found = trajectory.drift[4]["probe"]
    shown = f"{found.kl_summed:.3f}"[:4]
    page, text = (
        run_page(trajectory),
        comparison_markdown(trajectory.comparisons[-1], trajectory=trajectory),
    )
    assert "<svg" in page[page.index('<h3 id="drift">') :].split("<h3")[1]
    assert [line.split("|")[1].strip() for line in text.splitlines() if "prompts |" in line][
        -1
    ] == ("4, training prompts")
    assert not any(
        line.plain.startswith("drift")
        for line in table_of(trajectory.final, trajectory=trajectory).renderables
    )
    detail = printed(detail_of(trajectory.comparisons[-1], trajectory=trajectory))
    assert shown in detail[detail.index("KL summed") :]
    assert max(map(len, detail.splitlines())) <= 100


def test_a_figure_that_may_be_wider_than_a_screen_has_a_caption_that_says_so(run: Path) -> None:
    figures = re.findall(r"<figure>(.*?)</figure>", run_page(Trajectory.from_run(run)), re.DOTALL)
    assert len(figures) > 3
    assert all("<figcaption>" in figure for figure in figures if 'class="scroll"' in figure)


def test_every_number_of_a_drift_and_its_floor_comes_back_from_strict_json() -> None:
    stored = json.loads(json.dumps(stored_drift({"probe": HARD}), allow_nan=False))
    found = read_drift({"drift": stored}, label="a look")
    assert found is not None
    assert repr(found["probe"]) == repr(HARD)  # nan is unequal to itself
    shown = drift_json({"probe": HARD})
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown is not None
    assert (shown["probe"]["kl_sampled"], shown["probe"]["kl_summed"]) == (None, 0.25)
    assert shown["probe"]["floor"] == {"kl_sampled": -1e-9, "kl_summed": 0.0}
    assert drift_json(None) is None


def test_the_floor_is_that_of_the_base_and_each_number_has_its_own_key() -> None:
    base = Drift(
        completions=2,
        tokens=5,
        kl_sampled=1e-6,
        kl_sampled_se=0.0,
        overlap=1,
        overlap_se=0.0,
        kl_summed=1e-7,
    )
    assert LookDrift.of(HARD, base).floor == Floor(kl_sampled=1e-6, kl_summed=1e-7)
    assert LookDrift.of(HARD).floor is None
    row = drift_row({"probe": HARD})
    assert (row["kl_probe"], row["kl_summed_probe"], row["kl_summed_probe_se"]) == (
        math.inf,
        0.25,
        0.05,
    )
    assert row["overlap_probe"] == 0.5


def test_only_the_interval_of_the_sampled_kl_may_reach_below_zero() -> None:
    found = replace(HARD, kl_sampled=0.01, kl_sampled_se=0.02, kl_summed=0.01, kl_summed_se=0.02)
    assert DRIFT.cells(found)["kl_sampled"] == "0.010 (-0.029 to 0.049)"
    assert DRIFT.cells(found)["kl_summed"] == "0.010 (0 to 0.049)"


def test_two_looks_of_a_run_have_no_drift_between_them(run: Path) -> None:
    """A look's drift is from the start of its run, and not from another look."""
    looks = [run / "_forgetwatch" / f"step-00000{step}.parquet" for step in (2, 4)]
    assert compare(before=looks[0], after=looks[1]).drift is None
    assert (
        compare(before=run / "_forgetwatch" / "baseline.parquet", after=looks[1]).drift is not None
    )
    base = load_snapshot(run / "_forgetwatch" / "baseline.parquet")
    assert (
        compare(before=replace(base, meta={**base.meta, "run": "another"}), after=looks[1]).drift
        is None
    )


@pytest.mark.parametrize(
    "stored",
    [
        *({"probe": 3}, {"probe": {"tokens": 5}}, {"probe": {"completions": "many"}}),
        {"probe": {**WHOLE, "kl_sampled": "many"}},
        {"probe": {**WHOLE, "floor": 3}},
    ],
)
def test_metadata_that_are_no_drift_are_refused(run: Path, stored: dict[str, Any]) -> None:
    folder = run / "_forgetwatch"
    base, look = (
        load_snapshot(folder / name) for name in ("baseline.parquet", "step-000004.parquet")
    )
    with pytest.raises(SnapshotError, match="needed numbers of each set under 'drift'"):
        compare(before=base, after=replace(look, meta={**look.meta, "drift": stored}))
    whole = compare(before=base, after=replace(look, meta={**look.meta, "drift": {"probe": WHOLE}}))
    assert repr(whole.drift) == repr({"probe": HARD})  # nan is unequal to itself


def test_a_look_drift_is_a_drift(run: Path) -> None:
    found = Trajectory.from_run(run).drift[4]["training"]
    assert isinstance(found, LookDrift)
    assert found.completions == len(EXAMPLES)


PROMPTS = {
    "probe": [(20, 21, 22), (30, 31), (40, 41, 42, 43, 44)],
    "training": [(50,), (30, 31), (60, 61, 62)],
}


def gpt2(*, seed: int = 0, vocabulary: int = 40) -> Any:
    """A random GPT-2 of two layers, whose positions are learned, not rotated."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=3,
        eos_token_id=1,
    )
    return GPT2LMHeadModel(config)


def sharper(network: Any, factor: float = 30.0) -> Any:
    """The model with larger weights in its head: a distribution that is far from even."""
    with torch.no_grad():
        network.get_output_embeddings().weight.mul_(factor)
    return network


def perturbed(network: Any, size: float) -> None:
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(size * torch.randn(weight.shape, generator=generator))


def state(network: Any, tok: Any) -> dict[str, Any]:
    """Whatever sampling could leave changed."""
    return {
        "modes": [module.training for module in network.modules()],
        "grad": torch.is_grad_enabled(),
        "config": network.config.to_dict(),
        "generation": network.generation_config.to_dict(),
        "same generation": id(network.generation_config),
        "padding": (tok.padding_side, tok.truncation_side),
        "attributes": [sorted(vars(module)) for module in network.modules()],
        "weights": [weight.detach().clone().numpy().tobytes() for weight in network.parameters()],
        "python": random.getstate(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "torch": torch.get_rng_state().tolist(),
    }


def expected_counts(network: Any, prompt: tuple[int, ...], draws: int) -> np.ndarray:
    with torch.no_grad():
        logits = network.eval()(input_ids=torch.tensor([prompt])).logits[0, -1]
    return draws * torch.softmax(logits.double(), -1).numpy()


@pytest.mark.full("<lambda>1", reason="further models")
@pytest.mark.parametrize("make", [lambda: sharper(model(TOK)), lambda: sharper(gpt2(), 6.0)])
def test_first_tokens_follow_the_models_own_distribution_also_when_padded(make: Any) -> None:
    network = make()
    network.generation_config.update(
        repetition_penalty=3.0, top_k=2, suppress_tokens=[5, 6], min_new_tokens=2
    )
    draws, prompt = 4000, (20, 21)
    # All in one batch: the longer prompts pad the others.
    long = [(11, 12, 13, 14, 15, 16, 17)] * 40
    found = sample_completions(
        network, TOK, {"a": [prompt] * draws, "b": long}, tokens=1, token_budget=10**6
    )
    counts = np.bincount(
        [ids[0] for ids in found.tokens[:draws]], minlength=network.config.vocab_size
    )
    expected = expected_counts(network, prompt, draws)
    assert (expected > 5).sum() > 4
    assert expected.max() < 0.9 * draws
    common = expected > 5
    rare = counts[~common].sum()
    assert abs(rare - expected[~common].sum()) < 5 * math.sqrt(expected[~common].sum() + 1)
    chi_square = ((counts[common] - expected[common]) ** 2 / expected[common]).sum()
    freedom = common.sum()
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("make", [lambda: sharper(model(TOK)), lambda: sharper(gpt2(), 6.0)])
def test_later_tokens_follow_it_too(make: Any) -> None:
    """The surprise of a token that is drawn from a distribution is on average its entropy, at every position."""
    network = make().eval()
    prompts = [(20, 21), (11, 12, 13, 14, 15, 16, 17), (30,)] * 150
    found = sample_completions(network, TOK, {"a": prompts}, tokens=6, token_budget=10**6)
    excess: list[list[float]] = [[] for _ in range(6)]
    for prompt, tokens, logprobs in zip(found.prompts, found.tokens, found.logprobs, strict=True):
        with torch.no_grad():
            read = (
                network(input_ids=torch.tensor([prompt + tokens]))
                .logits[0, len(prompt) - 1 : -1]
                .double()
            )
        entropies = torch.distributions.Categorical(logits=read).entropy().numpy()
        for place, value in enumerate(-logprobs - entropies):
            excess[place].append(float(value))
    for values in excess:
        assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(len(values))


def test_one_token_completions_estimate_the_exact_kl() -> None:
    network, prompt = sharper(gpt2(vocabulary=12), 10.0), (4, 5)
    found = sample_completions(network, TOK, {"a": [prompt] * 3000}, tokens=1)
    base = expected_counts(network, prompt, 1)
    perturbed(network, 0.05)
    now = expected_counts(network, prompt, 1)
    exact = float(base @ np.log(base / now))
    drift = found.drift(read_under(network, found))["a"]
    assert exact > 0.01
    assert 0 < drift.kl_sampled_se < exact / 4
    assert drift.kl_sampled == pytest.approx(exact, abs=4 * drift.kl_sampled_se)
    assert drift.overlap == pytest.approx(
        float(np.sqrt(base * now).sum()), abs=4 * drift.overlap_se
    )


@pytest.mark.parametrize("make", [lambda: model(TOK), lambda: gpt2(vocabulary=80)])
def test_drift_is_exactly_0_for_equal_weights_and_grows_with_their_difference(make: Any) -> None:
    network = sharper(make())
    found = sample_completions(network, TOK, PROMPTS, tokens=8)
    again = read_under(network, found)
    assert [(drift.kl_sampled, drift.overlap) for drift in found.drift(again).values()] == [
        (0.0, 1.0)
    ] * 2
    distances = []
    for size in (0.01, 0.05):
        perturbed(network, size)
        now = read_under(network, found)
        distances.append(sum(drift.kl_sampled for drift in found.drift(now).values()))
    assert 0 < distances[0] < distances[1]


def test_log_probabilities_are_those_of_single_forwards_at_temperature_1() -> None:
    network = model(TOK).eval()
    found = sample_completions(network, TOK, PROMPTS, tokens=6)
    for prompt, tokens, logprobs in zip(found.prompts, found.tokens, found.logprobs, strict=True):
        assert logprobs.dtype == np.float64
        for place in range(len(tokens)):
            expected = log_likelihood(network, prompt + tokens[:place], tokens[place : place + 1])
            assert logprobs[place] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "make", [lambda: sharper(model(TOK)), lambda: sharper(gpt2(vocabulary=80), 6.0)]
)
def test_the_likeliest_tokens_and_their_log_probabilities_are_those_of_single_forwards(
    make: Any,
) -> None:
    network = make().eval()
    found = sample_completions(network, TOK, PROMPTS, tokens=6)
    perturbed(network, 0.02)
    now = read_under(network, found)
    perturbed(network, -0.02)
    for prompt, tokens, ids, logprobs in zip(
        found.prompts, found.tokens, found.top_ids, found.top_logprobs, strict=True
    ):
        with torch.no_grad():
            read = (
                network(input_ids=torch.tensor([prompt + tokens]))
                .logits[0, len(prompt) - 1 : -1]
                .double()
            )
        expected = torch.log_softmax(read, -1).topk(20)
        assert (ids.dtype, ids.shape) == (np.int32, (len(tokens), 20))
        assert logprobs == pytest.approx(expected.values.numpy(), abs=1e-4)
        assert np.mean(ids == expected.indices.numpy()) > 0.9  # but for ties by rounding
    assert not np.array_equal(now.top_logprobs[0], found.top_logprobs[0])
    for ids, logprobs, tokens, values in zip(
        found.top_ids, now.top_logprobs, found.tokens, now.logprobs, strict=True
    ):
        for row, column in np.argwhere(
            ids == np.array(tokens)[:, None]
        ):  # the sampled token is among them
            assert logprobs[row, column] == np.float32(values[row])


def test_the_summed_kl_is_exact_for_a_small_vocabulary_and_0_for_equal_weights() -> None:
    network = sharper(gpt2(vocabulary=12), 10.0)
    found = sample_completions(network, TOK, {"a": [(4, 5), (6, 7, 8)] * 20}, tokens=3)
    assert found.top_ids[0].shape[1] == 12
    equal = found.drift(read_under(network, found))["a"]
    assert (equal.kl_summed, equal.kl_sampled) == (0.0, 0.0)
    before = whole_logprobs(network, found)
    perturbed(network, 0.05)
    moved = found.drift(read_under(network, found))["a"]
    assert moved.kl_summed == pytest.approx(full_kl(before, network, found), rel=1e-3)
    assert moved.kl_summed > 0.01
    assert abs(moved.kl_sampled - moved.kl_summed) < 4 * moved.kl_sampled_se
    assert moved.kl_summed_se < moved.kl_sampled_se


def adapted(**options: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    options = {"r": 4, "target_modules": ["q_proj", "v_proj"], **options}
    return get_peft_model(sharper(model(TOK)), LoraConfig(**options))


def trained_of_completions(network: Any) -> Any:
    """The model with a change to whatever is trained, as an optimizer would make it."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.requires_grad:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return network


def full_kl(before: list[Any], network: Any, found: Completions) -> float:
    """Mean KL over the whole vocabulary at the positions of all tokens, from plain forwards."""
    after = whole_logprobs(network, found)
    pairs = zip(before, after, strict=True)
    return float(torch.cat([(one.exp() * (one - other)).sum(-1) for one, other in pairs]).mean())


def whole_logprobs(network: Any, found: Completions) -> list[Any]:
    rows = zip(found.prompts, found.tokens, strict=True)
    was_training = network.training
    network.eval()
    with torch.no_grad():
        read = [
            torch.log_softmax(
                network(input_ids=torch.tensor([p + t])).logits[0, len(p) - 1 : -1].double(), -1
            )
            for p, t in rows
        ]
    network.train(was_training)
    return read


def test_the_drift_of_an_adapted_model_is_nearly_its_kl_and_leaves_no_trace() -> None:
    network = adapted().train()
    found = sample_completions(network, TOK, PROMPTS, tokens=8)
    equal = found.drift(read_under(network, found))
    assert [one.kl_summed for one in equal.values()] == [0.0, 0.0]
    before = whole_logprobs(network, found)
    trained_of_completions(network)
    frozen = next(weight for weight in network.parameters() if weight.requires_grad)
    frozen.requires_grad_(False)  # an adapter's weight that is not trained stays so
    marks = [weight.requires_grad for weight in network.parameters()]
    tidy = state(network, TOK)
    moved = found.drift(read_under(network, found, token_budget=20))
    assert state(network, TOK) == tidy
    assert [weight.requires_grad for weight in network.parameters()] == marks
    mean = sum(one.kl_summed * one.tokens for one in moved.values()) / sum(
        one.tokens for one in moved.values()
    )
    whole = full_kl(before, network, found)
    assert 0.5 * whole < mean <= whole  # a sum over the likeliest half of the vocabulary


def test_every_part_of_the_work_reports_its_progress() -> None:
    network, seen = adapted(), list[Done]()
    found = sample_completions(
        network, TOK, PROMPTS, tokens=8, token_budget=20, progress=seen.append
    )
    read_under(network, found, token_budget=20, progress=seen.append)
    units = ["completions", "completions read", "completions read again", "completions"]
    assert [unit for unit, _ in groupby(one.unit for one in seen)] == units
    for _, part in groupby(seen, key=lambda one: one.unit):
        counts = [one.count for one in part]
        assert counts == sorted(counts)
        assert counts[-1] == 6


def test_merged_adapters_stay_merged() -> None:
    network = adapted()
    found = sample_completions(network, TOK, PROMPTS, tokens=4)
    trained_of_completions(network).merge_adapter()
    before = state(network, TOK)
    assert found.drift(read_under(network, found))["probe"].kl_summed > 0
    assert state(network, TOK) == before


def test_the_floor_is_the_drift_of_the_base_in_other_batches_and_is_kept_in_the_file(
    tmp_path: Path,
) -> None:
    network = sharper(model(TOK))

    def rounded(
        _: Any, __: Any, output: Any
    ) -> Any:  # as kernels that round by the shape of the batch
        output.last_hidden_state = output.last_hidden_state * (
            1 + 0.005 * len(output.last_hidden_state)
        )
        return output

    network.model.register_forward_hook(rounded)
    found = sample_completions(network, TOK, PROMPTS, tokens=8)
    now = found.drift(read_under(network, found))
    again = found.drift(read_under(network, found, token_budget=1))  # single rows
    assert set(found.floor) == {"probe", "training"}
    for name, floor in found.floor.items():
        assert (now[name].kl_summed, now[name].kl_sampled) == (0.0, 0.0)
        assert 0 < floor.kl_summed < 2 * again[name].kl_summed
        assert floor.kl_sampled != 0
        assert floor.tokens == now[name].tokens
    save_completions(found, tmp_path / "c.parquet")
    assert repr(read_completions(tmp_path / "c.parquet").floor) == repr(found.floor)


def test_a_floor_without_a_value_is_kept_too() -> None:
    columns = {
        "sets": ("a",),
        "prompts": ((1,),),
        "tokens": ((2,),),
        "logprobs": (np.array([-1.0]),),
    }
    one = Completions(**columns, meta={"seed": 1}, **TOP)
    assert one.floor == {}
    floor = one.with_floor(
        Reading(logprobs=[np.array([-1.5])], top_logprobs=list(TOP["top_logprobs"]))
    ).floor["a"]
    assert (floor.kl_sampled, floor.kl_summed) == (0.5, 0.0)
    assert math.isnan(floor.kl_sampled_se)


def test_completions_of_another_vocabulary_or_tokenizer_are_refused_in_one_sentence() -> None:
    network = sharper(model(TOK))
    found = sample_completions(network, TOK, PROMPTS, tokens=8)
    check_completions(found, sharper(model(TOK, seed=1)), TOK)
    with pytest.raises(
        ScoringError, match=rf"vocabulary of {len(TOK)} tokens, and the model has 12"
    ):
        check_completions(found, gpt2(vocabulary=12), TOK)
    turned = tokenizer()
    turned.convert_ids_to_tokens = lambda token: TOK.convert_ids_to_tokens(len(TOK) - 1 - token)
    with pytest.raises(ScoringError, match="generated with another tokenizer"):
        check_completions(found, network, turned)
    older = replace(found, meta={"seed": 0})
    check_completions(older, network, turned)  # nothing is known of it


def test_added_tokens_are_no_other_tokenizer() -> None:
    network, tok = model(TOK), tokenizer()
    found = sample_completions(network, tok, PROMPTS, tokens=4)
    tok.add_tokens(["entirely-new"])
    network.resize_token_embeddings(len(tok))
    check_completions(found, network, tok)


def test_a_completion_ends_with_the_end_token() -> None:
    network = model(TOK)
    network.generation_config.eos_token_id = [1, 25]
    found = sample_completions(network, TOK, {"a": [(20, 21)] * 200}, tokens=40)
    short = [ids for ids in found.tokens if len(ids) < 40]
    assert 10 < len(short) < 200
    assert {ids[-1] for ids in short} == {1, 25}
    assert all(not {1, 25} & set(ids[:-1]) for ids in found.tokens)


def test_the_same_seed_samples_the_same_in_any_order_and_another_seed_differs() -> None:
    network = model(TOK)
    prompts = {**PROMPTS, "more": [(70, 71), (72, 73), (74, 75)]}  # of one length
    one = sample_completions(network, TOK, prompts, tokens=8, seed=3)
    again = sample_completions(network, TOK, prompts, tokens=8, seed=3)
    assert one.checksum == again.checksum
    turned = {name: prompts[name][::-1] for name in reversed(prompts)}
    other = sample_completions(network, TOK, turned, tokens=8, seed=3)
    assert other.checksum != one.checksum
    key = ("sets", "prompts", "tokens")
    rows = [
        {
            row[:3]: row[3].tolist()
            for row in zip(*(getattr(c, name) for name in key), c.logprobs, strict=True)
        }
        for c in (one, other)
    ]
    assert rows[0] == rows[1]
    assert sample_completions(network, TOK, prompts, tokens=8, seed=4).tokens != one.tokens


@pytest.mark.parametrize("budget", [1, 30, 10**6])
def test_completions_are_in_the_order_of_the_prompts_whatever_the_batches(budget: int) -> None:
    found = sample_completions(model(TOK), TOK, PROMPTS, tokens=5, token_budget=budget)
    assert found.sets == ("probe",) * 3 + ("training",) * 3
    assert list(found.prompts) == PROMPTS["probe"] + PROMPTS["training"]
    assert all(1 <= len(ids) <= 5 for ids in found.tokens)


def test_prompts_that_are_too_long_are_left_out_and_counted() -> None:
    prompts = {"a": [(20,) * 9, (20,) * 10], "b": [(20,) * 30]}
    found = sample_completions(model(TOK, positions=16), TOK, prompts, tokens=8)
    assert found.left_out == {"a": 1, "b": 1}
    assert found.prompts == ((20,) * 9,)
    nothing = sample_completions(model(TOK, positions=16), TOK, {"b": prompts["b"]}, tokens=8)
    assert len(nothing) == 0
    assert nothing.drift(Reading(logprobs=[], top_logprobs=[])) == {}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("make", [lambda: model(TOK), lambda: gpt2(vocabulary=80)])
def test_sampling_and_reading_leave_nothing_changed(
    make: Any, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, tok = make().train(), tokenizer()
    next(iter(network.children())).eval()
    network.config.use_cache = False
    network.generation_config.update(temperature=0.5, do_sample=True, repetition_penalty=1.3)
    calls = []
    if fails:

        def generate(*_: Any, **options: Any) -> None:
            calls.append(options)
            random.random(), np.random.rand(), torch.rand(3)  # noqa: NPY002
            raise RuntimeError("boom")

        monkeypatch.setattr(type(network), "generate", generate)
    before = state(network, tok)
    if fails:
        with pytest.raises(RuntimeError, match="boom"):
            sample_completions(network, tok, PROMPTS, tokens=4)
        assert calls
    else:
        found = sample_completions(network, tok, PROMPTS, tokens=4)
        read_under(network, found)
    assert state(network, tok) == before


def test_adapters_take_part_in_sampling_and_reading() -> None:
    base = sample_completions(sharper(model(TOK)).eval(), TOK, PROMPTS, tokens=6)
    network = adapted(init_lora_weights=False).eval()
    before = state(network.get_base_model(), TOK)
    found = sample_completions(network, TOK, PROMPTS, tokens=6)
    assert state(network.get_base_model(), TOK) == before
    now = read_under(network, base)
    assert base.drift(now)["probe"].kl_sampled > 0
    assert found.drift(read_under(network, found))["probe"].kl_sampled == 0.0
    with network.disable_adapter():
        back = read_under(network, base)
    assert base.drift(back)["probe"].kl_sampled == 0.0


def test_prompt_learning_and_unusable_prompts_are_refused() -> None:
    from peft import PromptTuningConfig, get_peft_model

    network = model(TOK)
    with pytest.raises(ScoringError, match="prompt 1 of the set 'a' has no tokens"):
        sample_completions(network, TOK, {"a": [(20,), ()]})
    with pytest.raises(ScoringError, match="token id 900, and the model's vocabulary has"):
        sample_completions(network, TOK, {"a": [(900,)]})
    columns = {
        "sets": ("a",),
        "prompts": ((20,),),
        "tokens": ((900,),),
        "logprobs": (np.array([-1.0]),),
    }
    unknown = Completions(**columns, **TOP)
    with pytest.raises(ScoringError, match="token id 900"):
        read_under(network, unknown)
    config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    with pytest.raises(ScoringError, match="prompt learning"):
        sample_completions(get_peft_model(network, config), TOK, PROMPTS)


def test_a_model_that_generates_by_other_log_probabilities_than_it_reads_is_refused() -> None:
    network = sharper(model(TOK))

    def lost(_: Any, __: Any, options: dict[str, Any], output: Any) -> Any:
        if options.get("use_cache"):  # as where a state gets lost between tokens
            output.logits = -output.logits
        return output

    network.register_forward_hook(lost, with_kwargs=True)
    with pytest.raises(
        ScoringError,
        match=r"Qwen3ForCausalLM generates by other log-probabilities .* nats per token",
    ):
        sample_completions(network, TOK, PROMPTS, tokens=6)


def test_rounding_to_bf16_is_no_reason_to_refuse() -> None:
    network = sharper(model(TOK)).to(torch.bfloat16)
    found = sample_completions(network, TOK, PROMPTS, tokens=20)
    again = read_under(network, found)
    assert found.drift(again)["probe"].kl_sampled == 0.0


@pytest.mark.parametrize("stateful", [False, True])
def test_models_with_a_state_get_prompts_without_padding(
    stateful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, masks = model(TOK), []
    network._is_stateful = stateful
    own = type(network).generate

    def generate(self: Any, **options: Any) -> Any:
        masks.append(options["attention_mask"])
        return own(self, **options)

    monkeypatch.setattr(type(network), "generate", generate)
    found = sample_completions(network, TOK, PROMPTS, tokens=2, token_budget=10**6)
    assert len(found) == 6
    assert all(bool(mask.all()) for mask in masks) == stateful
    assert len(masks) == (4 if stateful else 1)  # lengths 5, 3, 2, 1


TOP: dict[str, Any] = {
    "top_ids": (np.zeros((1, 1), np.int32),),
    "top_logprobs": (np.zeros((1, 1), np.float32),),
}
"""The likeliest token of a completion of one token."""


@pytest.fixture(scope="module")
def completions() -> Completions:
    return sample_completions(model(TOK), TOK, {**PROMPTS, "long": [(20,) * 500]}, tokens=6, seed=2)


def test_a_file_gives_back_what_was_saved(completions: Completions, tmp_path: Path) -> None:
    save_completions(completions, tmp_path / "c.parquet")
    found = read_completions(tmp_path / "c.parquet")
    assert (found.sets, found.prompts, found.tokens) == (
        completions.sets,
        completions.prompts,
        completions.tokens,
    )
    assert all(
        np.array_equal(one, other)
        for one, other in zip(found.logprobs, completions.logprobs, strict=True)
    )
    for name in ("top_ids", "top_logprobs"):
        pairs = zip(getattr(found, name), getattr(completions, name), strict=True)
        assert all(np.array_equal(one, other) and one.dtype == other.dtype for one, other in pairs)
    assert found.left_out == {"probe": 0, "training": 0, "long": 1}
    assert found.meta == completions.meta
    assert found.meta["seed"] == 2
    assert found.checksum == completions.checksum
    assert pq.read_schema(tmp_path / "c.parquet").names == SCHEMA.names  # no text


def test_the_file_of_128_completions_is_below_a_megabyte(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = Completions(
        sets=("probe",) * 64 + ("training",) * 64,
        prompts=tuple(tuple(rng.integers(0, 50_000, 60).tolist()) for _ in range(128)),
        tokens=tuple(tuple(rng.integers(0, 50_000, 32).tolist()) for _ in range(128)),
        logprobs=tuple(-rng.exponential(size=32) for _ in range(128)),
        top_ids=tuple(rng.integers(0, 50_000, (32, 20)).astype(np.int32) for _ in range(128)),
        top_logprobs=tuple(-rng.exponential(size=(32, 20)).astype(np.float32) for _ in range(128)),
    )
    save_completions(made, tmp_path / "c.parquet")
    assert (tmp_path / "c.parquet").stat().st_size < 1_000_000


def test_a_file_of_no_completions_can_be_read(tmp_path: Path) -> None:
    none = dict.fromkeys(("sets", "prompts", "tokens", "logprobs", "top_ids", "top_logprobs"), ())
    save_completions(Completions(**none), tmp_path / "c.parquet")
    assert len(read_completions(tmp_path / "c.parquet")) == 0


def test_damaged_files_are_refused_with_the_reason(
    completions: Completions, tmp_path: Path
) -> None:
    path = tmp_path / "c.parquet"
    save_completions(completions, path)
    whole, table = path.read_bytes(), pq.read_table(path)

    def refused(message: str) -> None:
        with pytest.raises(SnapshotError, match=message):
            read_completions(path)

    path.write_bytes(whole[: len(whole) // 2])
    refused("is it cut")
    path.unlink()
    refused("no such file")
    pq.write_table(table.replace_schema_metadata(None), path)
    refused("not completions that forgetwatch wrote")
    pq.write_table(
        table.replace_schema_metadata({b"forgetwatch": b'{"format": "forgetwatch/snapshot@1"}'}),
        path,
    )
    refused("its format is 'forgetwatch/snapshot@1'")
    pq.write_table(table.drop_columns(["tokens"]), path)
    refused("needs the column 'tokens'")

    def refused_with(column: str, values: list[Any], message: str) -> None:
        place, spec = table.schema.get_field_index(column), table.schema.field(column)
        pq.write_table(table.set_column(place, spec, pa.array(values, spec.type)), path)
        refused(message)

    tops, values = table["top_logprobs"].to_pylist(), table["logprobs"].to_pylist()
    tops[0][0][3] -= 0.5
    refused_with("top_logprobs", tops, "do not match its checksum")
    tops[0][0].pop()
    refused_with("top_logprobs", tops, "completions|completion 1 has")
    values[0][0] -= 0.5
    refused_with("logprobs", values, "do not match its checksum")
    values[1] = None
    refused_with("logprobs", values, "do not match its checksum")


def test_a_drift_needs_the_log_probabilities_of_all_completions(completions: Completions) -> None:
    with pytest.raises(ValueError, match="of 6 completions, got those of 1"):
        completions.drift(Reading(logprobs=[np.zeros(1)], top_logprobs=[]))
