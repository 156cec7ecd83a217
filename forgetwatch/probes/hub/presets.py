"""The table of presets: every benchmark of the hub that can be loaded by name.

Data sets, splits and licences are those that the hub's pages named in 2026. The row functions are in
multiple_choice.py, reasoning.py and selections.py. To add a benchmark, write its row function and add
one `Preset` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forgetwatch.probes.hub import multiple_choice, reasoning, selections
from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.paper_tasks import subjects

SUBJECTS: Final = subjects()
"""The 57 subjects of MMLU."""

_BELEBELE: Final = """
acm_Arab afr_Latn als_Latn amh_Ethi apc_Arab arb_Arab arb_Latn ars_Arab ary_Arab arz_Arab asm_Beng azj_Latn bam_Latn
ben_Beng ben_Latn bod_Tibt bul_Cyrl cat_Latn ceb_Latn ces_Latn ckb_Arab dan_Latn deu_Latn ell_Grek eng_Latn est_Latn
eus_Latn fin_Latn fra_Latn fuv_Latn gaz_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hin_Latn hrv_Latn
hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kac_Latn kan_Knda kat_Geor kaz_Cyrl
kea_Latn khk_Cyrl khm_Khmr kin_Latn kir_Cyrl kor_Hang lao_Laoo lin_Latn lit_Latn lug_Latn luo_Latn lvs_Latn mal_Mlym
mar_Deva mkd_Cyrl mlt_Latn mri_Latn mya_Mymr nld_Latn nob_Latn npi_Deva npi_Latn nso_Latn nya_Latn ory_Orya pan_Guru
pbt_Arab pes_Arab plt_Latn pol_Latn por_Latn ron_Latn rus_Cyrl shn_Mymr sin_Latn sin_Sinh slk_Latn slv_Latn sna_Latn
snd_Arab som_Latn sot_Latn spa_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn tam_Taml tel_Telu tgk_Cyrl tgl_Latn
tha_Thai tir_Ethi tsn_Latn tso_Latn tur_Latn ukr_Cyrl urd_Arab urd_Latn uzn_Latn vie_Latn war_Latn wol_Latn xho_Latn
yor_Latn zho_Hans zho_Hant zsm_Latn zul_Latn
"""
_GLOBAL_MMLU: Final = """
am ar bn cs de el en es fa fil fr ha he hi id ig it ja ko ky lt mg ms ne nl ny pl pt ro ru si sn so sr sv sw te tr uk
vi yo zh
"""
_METABENCH: Final = ("ARC", "GSM8K", "HellaSwag", "MMLU", "TruthfulQA", "Winogrande")

_TABLE: Final = (
    Preset(
        name="mmlu",
        about="57 subjects of school and study",
        items="14,042",
        k="4",
        licence="MIT",
        sources=(
            Source(dataset="cais/mmlu", config="all", split="test", task="mmlu", examples="dev"),
            *(
                Source(dataset="cais/mmlu", config=name, split="test", task=f"mmlu_{name}", part=name, examples="dev")
                for name in SUBJECTS
            ),
        ),
        question=multiple_choice.mmlu,
        note="some keys are wrong; mmlu-redux leaves those out",
    ),
    Preset(
        name="mmlu-redux",
        about="MMLU without faulty questions",
        items="up to 5,700",
        k="4",
        licence="CC-BY-4.0",
        sources=tuple(
            Source(
                dataset="edinburgh-dawg/mmlu-redux-2.0",
                config=name,
                split="test",
                task=f"mmlu_redux_{name}",
                part=name,
            )
            for name in SUBJECTS
        ),
        question=multiple_choice.mmlu_redux,
        note="rows whose error_type is not ok are left out",
    ),
    Preset(
        name="mmlu-pro",
        about="14 harder subjects, more options",
        items="12,032",
        k="1 to 10",
        licence="MIT",
        sources=(Source(dataset="TIGER-Lab/MMLU-Pro", split="test", task="mmlu_pro", examples="validation"),),
        question=multiple_choice.mmlu_pro,
        note="items with one option are in the raw counts, not in the chance adjustment",
    ),
    Preset(
        name="arc-easy",
        about="school science, easy",
        items="2,376",
        k="3 to 5",
        licence="CC-BY-SA",
        sources=(
            Source(dataset="allenai/ai2_arc", config="ARC-Easy", split="test", task="arc_easy", examples="train"),
        ),
        question=multiple_choice.arc,
        norm="chars",
    ),
    Preset(
        name="arc-challenge",
        about="school science, challenge",
        items="1,172",
        k="3 to 5",
        licence="CC-BY-SA",
        sources=(
            Source(
                dataset="allenai/ai2_arc",
                config="ARC-Challenge",
                split="test",
                task="arc_challenge",
                examples="train",
            ),
        ),
        question=multiple_choice.arc,
        norm="chars",
    ),
    Preset(
        name="openbookqa",
        about="elementary science",
        items="500",
        k="4",
        licence="unknown",
        sources=(
            Source(dataset="allenai/openbookqa", config="main", split="test", task="openbookqa", examples="train"),
        ),
        question=multiple_choice.openbookqa,
        norm="chars",
    ),
    Preset(
        name="gpqa-diamond",
        about="science for experts",
        items="198",
        k="4",
        licence="CC-BY-4.0",
        sources=(Source(dataset="Idavidrein/gpqa", config="gpqa_diamond", split="train", task="gpqa_diamond"),),
        question=multiple_choice.gpqa,
        note="gated: accept its terms and log in; its text must not be published and is never shown; the options' "
        "order is ours",
        private=True,
    ),
    Preset(
        name="hellaswag",
        about="how a description goes on",
        items="10,042",
        k="4",
        licence="MIT",
        # The labels of its test split are empty.
        sources=(Source(dataset="Rowan/hellaswag", split="validation", task="hellaswag", examples="train"),),
        question=multiple_choice.hellaswag,
        norm="chars",
    ),
    Preset(
        name="piqa",
        about="how things are done",
        items="1,838",
        k="2",
        licence="unknown",
        sources=(Source(dataset="baber/piqa", split="validation", task="piqa", examples="train"),),
        question=multiple_choice.piqa,
        norm="chars",
    ),
    Preset(
        name="siqa",
        about="how people act and feel",
        items="1,954",
        k="3",
        licence="unstated",
        sources=(Source(dataset="lighteval/siqa", split="validation", task="social_iqa", examples="train"),),
        question=multiple_choice.siqa,
    ),
    Preset(
        name="csqa",
        about="everyday concepts",
        items="1,221",
        k="5",
        licence="MIT",
        sources=(Source(dataset="tau/commonsense_qa", split="validation", task="commonsense_qa", examples="train"),),
        question=multiple_choice.csqa,
    ),
    Preset(
        name="winogrande",
        about="whom a word stands for",
        items="1,267",
        k="2",
        licence="unchecked",
        sources=(
            Source(
                dataset="allenai/winogrande",
                config="winogrande_xl",
                split="validation",
                task="winogrande",
                examples="train",
            ),
        ),
        question=multiple_choice.winogrande,
        note="option and rest of the sentence are scored; the harness scores only the rest",
    ),
    Preset(
        name="truthfulqa-mc1",
        about="what many people get wrong",
        items="817",
        k="2 to 13",
        licence="Apache-2.0",
        sources=(
            Source(
                dataset="truthfulqa/truthful_qa",
                config="multiple_choice",
                split="validation",
                task="truthfulqa_mc1",
            ),
        ),
        question=multiple_choice.truthfulqa,
        note="the right option comes first in the data, so the order is ours; without the six examples of the harness",
    ),
    Preset(
        name="salad-mrq",
        about="which answers are safe",
        items="about 4,000",
        k="per item",
        licence="Apache-2.0",
        sources=(Source(dataset="walledai/SaladBench", config="mrq", split="train", task="salad_bench_mrq"),),
        question=multiple_choice.salad,
        note="several options are right: a guesser is right more often than 1/k",
    ),
    Preset(
        name="bbh",
        about="24 reasoning tasks with options",
        items="about 5,800",
        k="2 to 19",
        licence="MIT",
        sources=tuple(
            Source(dataset="SaylorTwift/bbh", config=task, split="test", task=f"bbh_{task}", part=task)
            for task in sorted([*reasoning.BBH_LISTED, *reasoning.BBH_WORDS])
        ),
        question=reasoning.bbh,
        norm="chars",
        note="options are read from the question's text",
    ),
    Preset(
        name="bbh-open",
        about="3 tasks without options",
        items="750",
        k="none",
        licence="MIT",
        sources=tuple(
            Source(dataset="SaylorTwift/bbh", config=task, split="test", task=f"bbh_{task}", part=task)
            for task in sorted(reasoning.BBH_OPEN)
        ),
        question=reasoning.bbh,
        decoding={"tokens": 64, "stop": ["\n"]},
        note="the paper leaves them out",
    ),
    Preset(
        name="musr",
        about="murders, hidden things, teams",
        items="756",
        k="2 to 5",
        licence="CC-BY-4.0",
        sources=tuple(
            Source(dataset="TAUR-Lab/MuSR", split=name, task=f"musr_{name}", part=name)
            for name in ("murder_mysteries", "object_placements", "team_allocation")
        ),
        question=reasoning.musr,
        norm="chars",
        note="about 1,000 tokens an item",
    ),
    Preset(
        name="mctest",
        about="children's stories",
        items="840",
        k="4",
        licence="other: research only",
        sources=tuple(
            Source(
                dataset="sagnikrayc/mctest",
                split="test",
                task="mctest",
                config=config,
                part=config,
                examples="train",
                revision="refs/convert/parquet",
                files=f"{config}/{{split}}/*.parquet",
            )
            for config in ("mc160", "mc500")
        ),
        question=reasoning.mctest,
        note="its main revision is a script, which is not run; the hub's own copy as Parquet is read",
    ),
    Preset(
        name="gsm8k",
        about="sums in words",
        items="1,319",
        k="none",
        licence="MIT",
        sources=(Source(dataset="openai/gsm8k", config="main", split="test", task="gsm8k", examples="train"),),
        question=reasoning.gsm8k,
        decoding={"tokens": 512, "stop": ["Question:"]},
        note="base models need worked examples: shots=5",
    ),
    Preset(
        name="ifeval",
        about="instructions that can be checked",
        items="541",
        k="none",
        licence="Apache-2.0",
        sources=(Source(dataset="google/IFEval", split="train", task="ifeval"),),
        question=reasoning.ifeval,
        decoding={"tokens": 1280},
        note="items that need a language detector or a sentence splitter are unscored, not generated",
    ),
    # Training in one language loses the others first, so a language is a part and its code is the category.
    Preset(
        name="belebele",
        about="reading in 122 languages",
        items="900 each",
        k="4",
        licence="CC-BY-SA-4.0",
        sources=tuple(
            Source(dataset="facebook/belebele", config=code, split="test", task=f"belebele_{code}", part=code)
            for code in _BELEBELE.split()
        ),
        question=reasoning.belebele,
        note="a language is a part: belebele:deu_Latn+fra_Latn; questions on one passage are a cluster",
        needs_part=True,
    ),
    Preset(
        name="global-mmlu",
        about="MMLU in 42 languages",
        items="14,042 each",
        k="4",
        licence="Apache-2.0",
        sources=tuple(
            Source(
                dataset="CohereForAI/Global-MMLU",
                config=code,
                split="test",
                task=f"global_mmlu_full_{code}",
                part=code,
                examples="dev",
            )
            for code in _GLOBAL_MMLU.split()
        ),
        question=multiple_choice.global_mmlu,
        note="a language is a part: global-mmlu:de; evaluate English too: losses in other languages tend to follow it",
        needs_part=True,
    ),
    Preset(
        name="metabench",
        about="858 items that tell models apart",
        items="858 + 751",
        k="as parent",
        licence="unchecked",
        sources=(
            *(
                Source(dataset="HCAI/metabench", config=name, split="primary", task=f"metabench_{name.lower()}")
                for name in _METABENCH
            ),
            *(
                Source(
                    dataset="HCAI/metabench",
                    config=name,
                    split="secondary",
                    task=f"metabench_{name.lower()}_secondary",
                    part="secondary",
                )
                for name in _METABENCH
            ),
        ),
        question=selections.metabench,
        norm="chars",
        decoding={"tokens": 512, "stop": ["Question:"]},
        note="metabench:secondary is a disjoint second form; prompts of up to 25 worked examples",
    ),
    Preset(
        name="tinybenchmarks",
        about="six benchmarks, 100 items each",
        items="600",
        k="as parent",
        licence="unchecked",
        sources=tuple(
            Source(
                dataset=f"tinyBenchmarks/{dataset}",
                config=config,
                split=split,
                task=dataset,
                part=part,
                examples=examples,
            )
            for part, dataset, config, split, examples in (
                ("arc", "tinyAI2_arc", "ARC-Challenge", "test", "train"),
                ("gsm8k", "tinyGSM8k", "main", "test", "train"),
                ("hellaswag", "tinyHellaswag", None, "validation", "train"),
                ("mmlu", "tinyMMLU", "all", "test", None),
                ("truthfulqa", "tinyTruthfulQA", "multiple_choice", "validation", None),
                ("winogrande", "tinyWinogrande", "winogrande_xl", "validation", "train"),
            )
        ),
        question=selections.tiny,
        norm="chars",
        decoding={"tokens": 512, "stop": ["Question:"]},
        note="counts of these items, not weighted estimates",
    ),
)

PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _TABLE}
"""All presets of the hub, by name."""

ALIASES: Final = {
    "social-iqa": "siqa",
    "commonsense-qa": "csqa",
    "truthfulqa": "truthfulqa-mc1",
    "gpqa": "gpqa-diamond",
    "salad-bench": "salad-mrq",
}
"""Other names of presets."""

PAPER: Final = "paper"
"""Name of the paper's benchmarks as one probe."""

PAPER_PRESETS: Final = (
    *("mmlu", "bbh", "gpqa-diamond", "musr", "arc-easy", "arc-challenge", "hellaswag", "truthfulqa-mc1", "siqa"),
    *("mctest", "piqa", "csqa", "salad-mrq", "ifeval"),
)
"""The paper's twelve benchmarks, ARC's two parts being one of them, and IFEval for its tenth category."""

PAPER_DECODING: Final[Mapping[str, int]] = {"tokens": 1280}
"""Decoding of IFEval's answers in `paper`."""
