"""Encoding of five-shot items of four letters: seconds and peak memory, each whole text by itself against `encode`.

    python benchmarks/encoding.py [--tokenizer PATH] [--items 14042]

The items are shaped like MMLU's: 57 subjects with five examples each, contexts of about 650 tokens, two spellings of
each of four letters. Both ways run in a process of their own, for the memory; the ids are compared by their digest.
Without a tokenizer a byte-level BPE is trained first. "Straightforward" tokenizes the context, and then the context
with each choice and spelling, of all items in two calls. Takes about 6 minutes on two cores; 1,000 items half a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from forgetwatch import Item, Probe
from forgetwatch.scoring import encoding
from forgetwatch.scoring.encoding import render

SUBJECTS, SHOTS = 57, 5


def make_items(count: int) -> list[Item]:
    """Items by subject; all of a subject have the same five examples."""
    rng = random.Random(0)
    syllables = [
        a + b
        for a in ("b", "d", "l", "m", "n", "p", "r", "st", "pr")
        for b in ("a", "e", "i", "o", "an", "ion", "er", "al")
    ]
    words = ["".join(rng.choices(syllables, k=1 + rng.randrange(3))) for _ in range(5000)]

    def sentence(length: int) -> str:
        return " ".join(rng.choices(words, k=length)).capitalize()

    def question() -> str:
        options = "".join(f"\n{letter}. {sentence(rng.randrange(2, 9))}" for letter in "ABCD")
        return f"{sentence(rng.randrange(10, 28))}?{options}\nAnswer:"

    headers = [
        f"The following are multiple choice questions about {sentence(2)}.\n\n"
        + "".join(f"{question()} {rng.choice('ABCD')}\n\n" for _ in range(SHOTS))
        for _ in range(SUBJECTS)
    ]
    return [
        Item(
            id=str(index),
            task=f"subject {index * SUBJECTS // count}",
            prompt=headers[index * SUBJECTS // count] + question(),
            choices=(" A", " B", " C", " D"),
            answer=index % 4,
        )
        for index in range(count)
    ]


def make_tokenizer(folder: Path) -> None:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1200, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator([item.prompt for item in make_items(300)], trainer)
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="!").save_pretrained(folder)


def added(one: Any) -> list[str]:
    return [*one.choices, *(text for texts in one.spellings for text in texts)]


def encode_straightforwardly(probe: Probe, tokenizer: Any) -> list[encoding.Encoded]:
    """The same items, each whole text tokenized by itself."""
    rendered = [render(item, probe, tokenizer) for item in probe]
    contexts = [one.context.rstrip() for one in rendered]
    wholes = [
        context + one.context[len(context) :] + text
        for one, context in zip(rendered, contexts, strict=True)
        for text in added(one)
    ]
    ids = [tuple(row) for row in tokenizer(contexts, add_special_tokens=False)["input_ids"]]
    whole_ids = iter(
        [tuple(row) for row in tokenizer(wholes, add_special_tokens=False)["input_ids"]]
    )
    bos = encoding._added_bos(tokenizer)
    return [
        encoding._encode_item(
            one,
            context,
            [next(whole_ids)[len(context) :] for _ in added(one)],
            bos,
            tokenizer,
            8192,
        )
        for one, context in zip(rendered, ids, strict=True)
    ]


def measure(way: str, tokenizer: Any, count: int) -> dict[str, Any]:
    probe = Probe(make_items(count), scoring="letters")
    tokenizer("a")
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    started, cpu = time.perf_counter(), time.process_time()
    encoded = (
        encoding.encode(probe, tokenizer, max_length=8192)
        if way == "encode"
        else encode_straightforwardly(probe, tokenizer)
    )
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    digest = hashlib.sha256()
    for one in encoded:
        digest.update(json.dumps([one.context, one.choices, one.spellings, one.unscored]).encode())
    return {
        "seconds": seconds,
        "cpu": cpu,
        "memory": (peak - before) / 2**20,
        "tokens": sum(len(one.context) for one in encoded) / count,
        "digest": digest.hexdigest(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer")
    parser.add_argument("--items", type=int, default=14_042)
    parser.add_argument("--way", help="measure only this way, in this process")
    given = parser.parse_args()
    if given.way:
        print(
            json.dumps(
                measure(given.way, AutoTokenizer.from_pretrained(given.tokenizer), given.items)
            )
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.tokenizer is None:
            make_tokenizer(Path(folder))
        found = {}
        print(
            "| way | seconds | CPU seconds | peak memory, MiB | tokens a context |\n|---|---|---|---|---|",
            flush=True,
        )
        for way in ("straightforward", "encode"):
            command = [sys.executable, __file__, "--way", way, "--items", str(given.items)]
            done = subprocess.run(
                [*command, "--tokenizer", given.tokenizer or folder],
                capture_output=True,
                text=True,
                check=True,
            )
            one = found[way] = json.loads(done.stdout.splitlines()[-1])
            figures = f"{one['seconds']:.1f} | {one['cpu']:.1f} | {one['memory']:,.0f} | {one['tokens']:.0f}"
            print(f"| {way} | {figures} |", flush=True)
        before, after = found["straightforward"], found["encode"]
        same = before["digest"] == after["digest"]
        ratio = before["seconds"] / after["seconds"]
        less = before["memory"] / after["memory"]
        print(
            f"{given.items:,} items, ids {'equal' if same else 'DIFFERENT'}; {ratio:.1f} x faster, 1/{less:.0f} memory"
        )
        sys.exit(not same)


if __name__ == "__main__":
    main()
