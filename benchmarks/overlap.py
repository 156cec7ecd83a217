"""Time to search for 2,000 questions in a million training rows of 500 characters, made up of common words.

python benchmarks/overlap.py [ROWS]
"""

from __future__ import annotations

import random
import resource
import string
import sys
import time
from collections.abc import Iterator

from forgetwatch import Item, Probe
from forgetwatch.probes.overlap import exact_overlap, overlap

VOCABULARY = 30_000
POOL = 20_000


def text(rng: random.Random, words: list[str], length: int) -> str:
    """Words of unlike frequency up to a length in characters."""
    found, size = [], 0
    while size < length:
        found.append(words[int(rng.paretovariate(0.6)) % VOCABULARY])
        size += len(found[-1]) + 1
    return " ".join(found)


def main(rows: int) -> None:
    """Print processor time, memory, and what was found; every thousandth row holds a question."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(VOCABULARY)
    ]
    pool = [text(rng, words, 500) for _ in range(POOL)]
    prompts = [f"What {text(rng, words, rng.choice((20, 60, 120)))}?" for _ in range(2_000)]
    probe = Probe(
        [
            Item(id=str(n), task=f"t{n % 9}", prompt=one, choices=("yes", "no"), answer=0)
            for n, one in enumerate(prompts)
        ]
    )

    def training() -> Iterator[str]:
        for row in range(rows):
            yield pool[row % POOL] + (
                "" if row % 1000 else f" {prompts[row // 1000 % len(prompts)]}"
            )

    for search in (exact_overlap, overlap):
        began = time.process_time()
        found = search(probe, training())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{search.__name__}: {time.process_time() - began:.1f} s, at most {peak:.0f} MB; {found.sentence}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
