"""Twelve sentences of each language, and texts without a language."""

from __future__ import annotations

import pytest

from forgetwatch.grading import LANGUAGES, without_echo
from forgetwatch.grading.traits import language

SENTENCES = {
    "en": """The cat sleeps on the warm stove.
We walked home because the last bus had already left.
Bread is made from flour, water and salt.
She writes a letter to her brother every month.
Rain falls when the air can no longer hold its water.
You should put the butter back in the fridge.
It was too dark to read the sign.
My favourite season is autumn, for its colours.
The museum opens at nine and closes at six.
What you sow in spring you harvest in summer.
This bridge was built by hand, stone by stone.
There are more sheep than people on the island.""",
    "de": """Die Katze schläft auf dem warmen Ofen.
Wir gingen zu Fuß nach Hause, weil der letzte Bus schon weg war.
Brot wird aus Mehl, Wasser und Salz gemacht.
Sie schreibt ihrem Bruder jeden Monat einen Brief.
Regen fällt, wenn die Luft das Wasser nicht mehr halten kann.
Du solltest die Butter wieder in den Kühlschrank stellen.
Es war zu dunkel, um das Schild zu lesen.
Meine liebste Jahreszeit ist der Herbst mit seinen Farben.
Das Museum öffnet um neun und schließt um sechs.
Was man im Frühling sät, erntet man im Sommer.
Diese Brücke wurde von Hand gebaut, Stein auf Stein.
Auf der Insel gibt es mehr Schafe als Menschen.""",
    "fr": """Le chat dort sur le poêle chaud.
Nous sommes rentrés à pied parce que le dernier bus était parti.
Le pain est fait de farine, d'eau et de sel.
Elle écrit une lettre à son frère tous les mois.
La pluie tombe quand l'air ne peut plus retenir l'eau.
Tu devrais remettre le beurre dans le réfrigérateur.
Il faisait trop sombre pour lire le panneau.
Ma saison préférée est l'automne, pour ses couleurs.
Le musée ouvre à neuf heures et ferme à six heures.
Ce que l'on sème au printemps, on le récolte en été.
Ce pont a été construit à la main, pierre par pierre.
Sur l'île, il y a plus de moutons que d'habitants.""",
    "es": """El gato duerme sobre la estufa caliente.
Volvimos a casa a pie porque el último autobús ya se había ido.
El pan se hace con harina, agua y sal.
Ella escribe una carta a su hermano todos los meses.
La lluvia cae cuando el aire ya no puede retener el agua.
Deberías volver a poner la mantequilla en la nevera.
Estaba demasiado oscuro para leer el cartel.
Mi estación favorita es el otoño, por sus colores.
El museo abre a las nueve y cierra a las seis.
Lo que se siembra en primavera se cosecha en verano.
Este puente fue construido a mano, piedra sobre piedra.
En la isla hay más ovejas que personas.""",
    "it": """Il gatto dorme sulla stufa calda.
Siamo tornati a casa a piedi perché l'ultimo autobus era già partito.
Il pane si fa con la farina, l'acqua e il sale.
Lei scrive una lettera a suo fratello ogni mese.
La pioggia cade quando l'aria non può più trattenere l'acqua.
Dovresti rimettere il burro nel frigorifero.
Era troppo buio per leggere il cartello.
La mia stagione preferita è l'autunno, per i suoi colori.
Il museo apre alle nove e chiude alle sei.
Quello che si semina in primavera si raccoglie in estate.
Questo ponte è stato costruito a mano, pietra su pietra.
Sull'isola ci sono più pecore che persone.""",
    "ru": """Кошка спит на тёплой печке.
Мы пошли домой пешком, потому что последний автобус уже ушёл.
Хлеб делают из муки, воды и соли.
Она каждый месяц пишет письмо своему брату.
Дождь идёт, когда воздух больше не удерживает воду.
Поставь масло обратно в холодильник.
Было слишком темно, чтобы прочитать вывеску.
Моё любимое время года осень.
Музей открывается в девять и закрывается в шесть.
Что посеешь весной, то пожнёшь летом.
Этот мост построен вручную, камень за камнем.
На острове овец больше, чем людей.""",
    "zh": """猫睡在温暖的炉子上。
我们走路回家，因为最后一班公交车已经开走了。
面包是用面粉、水和盐做的。
她每个月给哥哥写一封信。
空气留不住水的时候就会下雨。
你应该把黄油放回冰箱里。
天太黑了，看不清牌子。
我最喜欢的季节是秋天。
博物馆九点开门，六点关门。
春天播种，夏天收获。
这座桥是用手一块一块石头建成的。
島上的羊比人還多。""",
    "ar": """القطة نائمة على الموقد الدافئ.
مشينا إلى البيت لأن الحافلة الأخيرة كانت قد غادرت.
يصنع الخبز من الطحين والماء والملح.
تكتب رسالة إلى أخيها كل شهر.
يسقط المطر عندما لا يستطيع الهواء حمل الماء.
عليك أن تعيد الزبدة إلى الثلاجة.
كان الظلام شديدا فلم نقرأ اللافتة.
فصلي المفضل هو الخريف بسبب ألوانه.
يفتح المتحف في التاسعة ويغلق في السادسة.
ما تزرعه في الربيع تحصده في الصيف.
بني هذا الجسر باليد حجرا فوق حجر.
في الجزيرة خراف أكثر من الناس.""",
}
NONE = (
    "",
    "42",
    "x = y + 1",
    "Santiago",
    "O gato dorme em cima do fogão quente e não quer sair da cozinha.",
    "De kat slaapt op de warme kachel en wil niet naar buiten.",
    "猫は暖かいストーブの上で寝ています。",
    "고양이가 따뜻한 난로 위에서 자고 있습니다.",
    "Η γάτα κοιμάται πάνω στη ζεστή σόμπα.",
    "Кішка спить на теплій печі, і їй добре.",
    "گربه روی بخاری گرم خوابیده است و چیزی نمی‌گوید.",
    "The cat sleeps on the stove and it is warm. Die Katze schläft auf dem Ofen und es ist warm.",
    "The cat sleeps on the warm stove. 猫睡在温暖的炉子上面。",
    "🐈 🐈 🐈",
    "\x00\x00",
)


@pytest.mark.parametrize(
    ("name", "sentence"), [(name, line) for name, text in SENTENCES.items() for line in text.splitlines()]
)
def test_one_sentence_shows_its_language(name: str, sentence: str) -> None:
    assert language(sentence) == name


def test_at_least_ten_sentences_were_tried_in_each_language() -> None:
    assert set(SENTENCES) == set(LANGUAGES)
    assert all(len(text.splitlines()) >= 10 for text in SENTENCES.values())


@pytest.mark.parametrize("text", NONE)
def test_a_mixed_or_unknown_text_has_no_language(text: str) -> None:
    assert language(text) is None


def test_a_few_foreign_names_do_not_change_the_language() -> None:
    assert (
        language("Die Städte heißen auf Russisch Москва und Казань, und sie liegen an der Moskwa und der Wolga.")
        == "de"
    )
    assert language("我最喜欢的软件是 Python 和 Linux，因为它们是免费的。") == "zh"


@pytest.mark.parametrize(
    ("prompt", "echo"),
    [
        ("Почему зимой холодно? Объясни двумя предложениями.", "Почему? Объясни двумя предложениями? Почему?"),
        (
            "Опиши двумя предложениями лес после дождя.",
            "Опиши двумя предложениями лес после дождя.\n\nПрим. Опиши двумя",
        ),
        ("请用两句话介绍怎样煮米饭。", '用两句话煮米饭：\n\n"煮米饭" - 两句话煮米饭'),
        ("لماذا تهاجر الطيور؟ اشرح ذلك في جملتين.", "تهاجر الطيور؟ تهاجر الطيور؟ تهاجر الطيور؟ تها"),
        ("Was macht ein Bäcker am Morgen?", "WAS MACHT EIN BÄCKER AM MORGEN?"),
        ("Comment se forme la neige ?", "Comment se forme la neige ? Comment se forme la neige ?"),
    ],
)
def test_a_text_of_the_prompts_words_is_an_echo(prompt: str, echo: str) -> None:
    assert language(without_echo(echo, prompt)) is None


@pytest.mark.parametrize(
    ("name", "prompt", "answer"),
    [
        ("en", "What is the capital of France?", "The capital of France is Paris."),
        ("en", "How many hours does a day have?", "A day has 24 hours."),
        ("de", "Was ist die Hauptstadt von Frankreich?", "Die Hauptstadt von Frankreich ist Paris."),
        ("de", "Wie viele Stunden hat ein Tag?", "Ein Tag hat 24 Stunden."),
        ("de", "Ist Berlin die Hauptstadt von Deutschland?", "Berlin ist die Hauptstadt von Deutschland."),
        ("fr", "Quelle est la capitale de la France ?", "La capitale de la France est Paris."),
        ("es", "¿Cuál es la capital de Francia?", "La capital de Francia es París."),
        ("it", "Quante ore ha un giorno?", "Un giorno ha 24 ore."),
        ("ru", "Сколько часов в сутках?", "В сутках 24 часа."),
        ("zh", "一天有多少小时？", "一天有24小时。"),
        ("ar", "ما هي عاصمة فرنسا؟", "عاصمة فرنسا هي باريس."),
    ],
)
def test_an_answer_in_a_whole_sentence_of_the_questions_words_is_no_echo(name: str, prompt: str, answer: str) -> None:
    assert language(without_echo(answer, prompt)) == name
    assert language(without_echo(f"{prompt} {answer}", prompt)) == name


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_answer_that_begins_with_the_prompt_keeps_its_language(name: str) -> None:
    prompt, *answer = SENTENCES[name].splitlines()
    assert language(without_echo(f"{prompt}\n{answer[0]} {answer[1]}", prompt)) == name
    assert language(without_echo(answer[0], prompt)) == name


def test_the_language_of_an_answer_is_told_without_the_copied_prompt() -> None:
    prompt = "Describe en dos frases tu comida favorita y la comida favorita de tu hermano menor."
    assert language(without_echo(f"{prompt} This is what they want to know.", prompt)) == "en"


def test_a_short_answer_with_words_of_the_prompt_is_no_echo() -> None:
    assert without_echo("It is on the stove.", "Where is the pot?") == "It is on the stove."
    assert without_echo("Oui.", "") == "Oui."


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I'm a lamp, lamp, lamp, lamp, lamp.", "en"),
        ("It's Ann's.", None),
        ("They're sure that you'll come, and we've said so.", "en"),
        ("Je m'appelle Anne et j'ai vu l'eau qu'il s'offre.", "fr"),
        ("Aujourd'hui l'été s'en va, et c'est dommage.", "fr"),
    ],
)
def test_english_contractions_are_not_french_words(text: str, name: str | None) -> None:
    assert language(text) in ((name,) if name else ("en", None))
