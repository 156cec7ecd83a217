"""Real per-question logs by others, against counts that were made independently of this package."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_public_names import loaded

from forgetwatch import Snapshot, compare
from forgetwatch.errors import MismatchError

PAIRS = [
    (
        "Meta-Llama-3_1-8B",
        "Meta-Llama-3_1-8B-Instruct",
        (12032, 1127, 2053, 12032),
        0.050102005631871,
    ),
    (
        "Mistral-7B-v0.1",
        "Mistral-7B-Instruct-v0.1",
        (12032, 1832, 1156, 12027),
        0.08686453735831563,
    ),
]


@pytest.mark.parametrize(("before", "after", "counts", "rate"), PAIRS)
def test_mmlu_pro_pairs(
    real_data: Path, before: str, after: str, counts: tuple[int, ...], rate: float
) -> None:
    folder = real_data / "mmlu_pro"
    whole = compare(before=folder / f"{before}.parquet", after=folder / f"{after}.parquet").all
    assert (whole.n, whole.forgotten, whole.gained, whole.chance.n) == counts
    assert whole.chance.paper is not None
    assert whole.chance.paper.forgetting == pytest.approx(rate, abs=1e-12)


def test_changed_questions_are_refused_or_left_out(real_data: Path) -> None:
    before, after = (
        real_data / "mmlu_pro" / f"{name}.parquet" for name in ("Mistral-7B-v0.1", "mathstral-7B")
    )
    with pytest.raises(MismatchError, match="13 items before and 13 after have no partner"):
        compare(before=before, after=after)
    shared = compare(before=before, after=after, on_mismatch="intersect")
    assert (shared.all.n, shared.all.forgotten, shared.all.gained) == (12019, 1018, 2487)
    assert shared.items.content_differs == 13
    assert shared.all.chance.paper is not None
    assert shared.all.chance.paper.forgetting == pytest.approx(0.03458723474396295, abs=1e-12)


def test_row_order_and_repeated_questions_do_not_change_the_counts(real_data: Path) -> None:
    import numpy as np

    from forgetwatch import load_snapshot

    before, after = (
        load_snapshot(real_data / "mmlu_pro" / f"{name}.parquet") for name in PAIRS[0][:2]
    )
    shuffled = replace(
        after, table=after.table.take(np.random.default_rng(0).permutation(len(after)))
    )
    whole = compare(before=before, after=shuffled).all
    assert (whole.n, whole.forgotten, whole.gained) == PAIRS[0][2][:3]


def real_model(folder: Path, dose: str, norm: str, *, nats: float = 0.0) -> Snapshot:
    """The recorded log-likelihoods of a real model, all options `nats` likelier, decided by a norm."""
    rows = pq.read_table(folder / "real_model" / "smollm2_dose.parquet").to_pylist()
    columns = {
        name: [row[name] for row in rows]
        for name in ("item_id", "task", "category", "k", "gold", "choice_bytes")
    }
    columns["choice_logprobs"] = [[value + nats for value in row[dose]] for row in rows]
    columns["content_hash"] = columns["item_id"]
    lengths = (
        columns["choice_bytes"]
        if norm == "bytes"
        else [[1] * len(row) for row in columns["choice_bytes"]]
    )
    scores = zip(columns["choice_logprobs"], lengths, strict=True)
    chosen = [int(np.argmax(np.divide(of_item, by))) for of_item, by in scores]
    right = [one == gold for one, gold in zip(chosen, columns["gold"], strict=True)]
    return Snapshot.from_columns(
        {**columns, "chosen": chosen, "correct": right}, {"probe": {"norm": norm}}
    )


@pytest.mark.parametrize(
    ("dose", "by_sum", "by_bytes"),
    [("dose_0.5", (89, 98), (89, 106)), ("dose_1.0", (147, 107), (125, 108))],
)
def test_a_real_model_flips_by_each_norm_as_recorded(
    real_data: Path, dose: str, by_sum: tuple[int, int], by_bytes: tuple[int, int]
) -> None:
    def flips(before: str, after: str) -> tuple[float, float]:
        whole = compare(
            before=real_model(real_data, "dose_0", before), after=real_model(real_data, dose, after)
        ).all
        return whole.forgotten, whole.gained

    assert flips("bytes", "bytes") == by_bytes
    assert flips("sum", "sum") == by_sum


@pytest.mark.parametrize(("nats", "flipped"), [(1.0, (12, 20)), (3.0, (44, 75))])
def test_all_options_of_a_real_model_likelier_flips_answers_by_a_length_and_none_by_the_sum(
    real_data: Path, nats: float, flipped: tuple[int, int]
) -> None:
    by_sum, by_bytes = (
        compare(
            before=real_model(real_data, "dose_0", norm),
            after=real_model(real_data, "dose_0", norm, nats=nats),
        )
        for norm in ("sum", "bytes")
    )
    assert (by_sum.all.forgotten, by_sum.all.gained, by_sum.all["forgotten_at_constant_mass"]) == (
        0,
        0,
        None,
    )
    assert (by_bytes.all.forgotten, by_bytes.all.gained) == flipped
    assert by_bytes.all["forgotten_at_constant_mass"] == 0
    assert any("0 instead of" in note for note in by_bytes.notes)


def test_an_edit_of_a_model_moved_its_choices_and_not_their_mass(real_data: Path) -> None:
    folder = real_data / "lm_eval_json"
    sides = [str(folder / f"arc_{name}.json") for name in ("base_scale_0", "anti_scale_1")]
    whole = compare(before=sides[0], after=sides[1], metric="acc").all
    assert (whole.n, whole.forgotten) == (1172, 430)
    found = whole["log_mass_change"], whole["log_conditional_change"]
    assert found == pytest.approx((26.1, -1.03), abs=0.05)
    found = whole["forgotten_log_mass_change"], whole["forgotten_log_conditional_change"]
    assert found == pytest.approx((23.2, -5.34), abs=0.05)
    assert whole["log_mass_change"] + whole["log_conditional_change"] == pytest.approx(
        25.11, abs=0.01
    )
    code = f"""
from forgetwatch.cli import app
app(["compare", {sides[0]!r}, {sides[1]!r}, "--metric", "acc", "--detail", "--json", "-"], standalone_mode=False)
"""
    assert loaded(code) == "[]"
