"""Words of their own within a text: scripts without spaces, particles, prefixes, marks and case."""

from __future__ import annotations

import pytest

from forgetwatch.grading import grade
from forgetwatch.item import Item

RIGHT = """
東京|答えは東京です。 東京|首都是東京。 北京|中国的首都是北京。 巴黎|巴黎是法国的首都
パリ|フランスの首都はパリです さくら|答え：さくらです 五|答案是：五 5|答えは5です 5|5年 Paris|答案是Paris。
서울|서울입니다. 서울|수도는_서울이다. 서울|서울은_수도 กรุงเทพ|คำตอบคือกรุงเทพ กรุงเทพ|เมืองหลวงคือกรุงเทพครับ
İstanbul|istanbul'da istanbul|İSTANBUL ırak|IRAK ISPARTA|ısparta ירושלים|בירושלים שלום|שָׁלוֹם القاهرة|الْقَاهِرَةُ
قاهرة|القاهرة باريس|في_باريس باريس|بباريس हिंदी|यह_हिंदी_है eau|de_l'eau
"""
OTHER = """
京都|東京都 京都|東京都です 大阪|大阪城 東|東京 国|中国 三|三十 北|北京 話|話す 山|富士山 水|水曜日 一|一月
月|月曜日 人|人口 地|目的地 日本|日本語 中国|中国語 ローマ|ローマン パリ|パリコレ いぬ|こいぬです
なび|答えははなびです うち|はうちわです 5|15 5|5.2 5|1.5 5|5万 5|5천 서울|서울대학교 사|사과 고양|고양이
대문|남대문 음악|음악가 경기|경기도 나|나이 นก|คือนกยูง ไทย|ไทยแลนด์ กา|กาแฟ हिंद|हिंदी शहर|शहरी शाम|शामि
שלום|ירושלום בית|בבית כלב|כלבים דינה|מדינה ما|ماء ما|مال دين|مدينة لندن|للندنية Paris|Parisian ма|мама cafe|café
e|é sınır|sinir sinir|sınır
"""


def _graded(pair: str, **given: object) -> bool | None:
    answer, output = pair.replace("_", " ").split("|")
    return grade(Item(id="1", task="t", prompt="Q", answer=answer, match="contains"), output).correct


@pytest.mark.parametrize("pair", RIGHT.split())
def test_an_answer_within_a_sentence_is_right(pair: str) -> None:
    assert _graded(pair) is True


def test_an_answer_that_is_a_part_of_another_word_is_never_right() -> None:
    pairs = OTHER.split()
    assert len(pairs) >= 50
    assert not [pair for pair in pairs if _graded(pair)]


def test_what_cannot_be_decided_is_unscored_with_the_reason() -> None:
    item = Item(id="1", task="t", prompt="Q", answer="京都", match="contains")
    assert grade(item, "東京都").outcome == "unscored: it cannot be decided whether '京都' is a word of its own there"
    assert grade(item, "大阪").correct is False


def test_an_option_is_named_in_a_sentence_without_spaces() -> None:
    item = Item(id="1", task="t", prompt="Q", choices=("東京", "大阪", "京都"), answer=0)
    assert grade(item, "首都は東京です。").correct is True
    assert grade(item, "大阪です").correct is False
    assert grade(item, "東京都").correct is None
