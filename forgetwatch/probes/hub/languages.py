"""The same questions in many languages: training in one language loses the others first.

    belebele      reading, 122 languages, 900 questions each on 488 passages
    global-mmlu   MMLU, 42 languages

A language is a part: `belebele:deu_Latn`, `global-mmlu:de+fr+sw`. Its code is the items' category. Rendering: as
lm-evaluation-harness 0.4 (tasks/belebele, tasks/global_mmlu/full).
"""

from __future__ import annotations

from typing import Final

from forgetwatch.probes.hub.preset import Preset, Source
from forgetwatch.probes.hub.question import Question, Row, cluster_of, field_of, label_of, letters, listed

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
_GLOBAL: Final = """
am ar bn cs de el en es fa fil fr ha he hi id ig it ja ko ky lt mg ms ne nl ny pl pt ro ru si sn so sr sv sw te tr uk
vi yo zh
"""


def _belebele(row: Row, source: Source) -> Question:
    passage, question = str(field_of(row, "flores_passage")), str(field_of(row, "question")).strip()
    options = tuple(str(field_of(row, f"mc_answer{number}")) for number in (1, 2, 3, 4))
    lines = "".join(f"\n{letter}: {option}" for letter, option in zip("ABCD", options, strict=True))
    return Question(
        prompt=f"P: {passage}\nQ: {question}{lines}\nAnswer:",
        choices=letters(4),
        answer=label_of(row, "correct_answer_num", (1, 2, 3, 4)),
        question=f"{passage}\n\n{question}",
        options=options,
        category=source.part,
        cluster=cluster_of(passage),
    )


def _global(row: Row, source: Source) -> Question:
    question = str(field_of(row, "question")).strip()
    options = tuple(str(field_of(row, f"option_{letter}")) for letter in "abcd")
    return Question(
        prompt=f"{question}{listed(options)}\nAnswer:",
        choices=letters(4),
        answer=label_of(row, "answer", "ABCD"),
        question=question,
        options=options,
        task=f"{source.task}_{field_of(row, 'subject')}",
        category=source.part,
        key=str(row.get("sample_id") or ""),
    )


BELEBELE: Final = Preset(
    name="belebele",
    about="reading in 122 languages",
    items="900 each",
    k="4",
    licence="CC-BY-SA-4.0",
    sources=tuple(
        Source(dataset="facebook/belebele", config=code, split="test", task=f"belebele_{code}", part=code)
        for code in _BELEBELE.split()
    ),
    question=_belebele,
    note="a language is a part: belebele:deu_Latn+fra_Latn; questions on one passage are a cluster",
    whole=False,
)

GLOBAL_MMLU: Final = Preset(
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
        for code in _GLOBAL.split()
    ),
    question=_global,
    note="a language is a part: global-mmlu:de; English first, the others follow its loss",
    whole=False,
)

PRESETS: Final = (BELEBELE, GLOBAL_MMLU)
