"""The page in a browser, from disk and without a network: what it shows, what its list does, and what it never does."""

import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from merge_sweeps import made_sweep
from pages import HOSTILE, Made, choices, hostile, plain, run, written
from support import PATIENCE

from forgetwatch.cli.output import write_report
from forgetwatch.comparing.verdict import TOLERANCE
from forgetwatch.merge.report import merge_page
from forgetwatch.report.flip_list import LONGEST
from forgetwatch.visible_text import visible

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WIDTHS = {"desktop": 1200, "phone": 390}

CONTRASTS = """() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(node).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const kinds = `body|h1|.brand|.quiet|.verdict|.verdict strong|.tag|figcaption|svg text|select|input|button|.alarm
    |summary|.change|.mark|dt|dd|th|td|tr.level th|form label|blockquote`;
  const found = [];
  for (const what of kinds.split("|").map((kind) => kind.trim())) {
    for (const node of document.querySelectorAll(what)) {
      const style = getComputedStyle(node);
      const color = node.closest("svg") ? style.fill : style.color;
      found.push({ what, text: node.textContent.slice(0, 20), ratio: ratio(parts(color), ground(node)) });
    }
  }
  return found;
}"""
"""Text against its ground, as a ratio of luminances (WCAG 2)."""

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a file offline; what it says on the console, asks for, or pops up fails the test at its end."""
    contexts, wrong = [], list[str]()

    def open_file(
        path: Path,
        *,
        width: int = 1200,
        scheme: str = "light",
        script: bool = True,
        unfold: bool = True,
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            java_script_enabled=script,
        )
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on(
            "console",
            lambda said: (
                wrong.append(f"console: {said.text}") if said.type in ("error", "warning") else 0
            ),
        )
        page.on(
            "dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )

        def asked(request: Any) -> None:
            if request.url.split("#")[0] != path.as_uri() and not request.url.startswith("data:"):
                wrong.append(f"request: {request.url}")

        page.on("request", asked)
        page.goto(path.as_uri())
        if unfold:
            page.locator("details.fold").evaluate_all(
                "all => all.forEach((one) => { one.open = true; })"
            )
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from forgetwatch.comparing.flips import first_forgotten, flips

    trajectory, probe = run()
    changed = flips(
        trajectory.baseline, trajectory.last, probe=probe, first=first_forgotten(trajectory)
    )
    path = tmp_path_factory.mktemp("run") / "report.html"
    last = [trajectory.comparisons[-1]]
    write_report(path, last, changed, tolerance=TOLERANCE, trajectory=trajectory, title="out/run")
    return path


def file(folder: Path, of: Made, **options: Any) -> Path:
    path = folder / "report.html"
    write_report(path, [of.comparison], of.changed, tolerance=TOLERANCE, **options)
    return path


def test_the_verdict_curve_categories_and_questions_are_on_one_screen(
    opened: Open, run_file: Path
) -> None:
    page = opened(run_file, width=1280, unfold=False)
    for part in ("h1.verdict", ".facts", "#summary figure", "#summary blockquote >> nth=2"):
        box = page.locator(part).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 800, part
    assert page.locator("details.fold[open]").count() == 0


def test_paper_shows_what_is_below_a_fold(opened: Open, run_file: Path) -> None:
    page = opened(run_file, unfold=False)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.fold:not([open])").count() == 0


def cards(page: Any) -> Any:
    return page.locator("#list > details")


def unfold(card: Any) -> None:
    """Open a question; it is filled by an event after the click."""
    card.locator("summary").click()
    card.locator(".body").wait_for()


def count_line(page: Any) -> str:
    return str(page.locator("#count").inner_text())


def test_the_list_is_filtered_by_kind_category_and_task(opened: Open, tmp_path: Path) -> None:
    of = choices()
    page = opened(file(tmp_path, of))
    known = [flip for flip in of.changed if flip.what == "forgotten" and flip.known]
    assert len(known) > 3
    assert count_line(page) == f"{len(known)} of {len(known)} shown"  # the clearly known come first
    for what in ("forgotten", "gained", "churned"):
        page.select_option("#what", what)
        there = [flip for flip in of.changed if flip.what == what]
        assert count_line(page) == f"{min(50, len(there))} of {len(there)} shown"
    page.select_option("#what", "forgotten")
    page.select_option("#category", "Math")
    math = [flip for flip in of.changed if flip.what == "forgotten" and flip.category == "Math"]
    assert cards(page).count() == min(50, len(math))
    page.select_option("#task", "task 4")
    both = [flip for flip in math if flip.task == "task 4"]
    assert 0 < cards(page).count() == len(both) < len(math)
    page.select_option("#task", "task 0")  # of another category
    assert count_line(page) == "No question fits these filters."
    assert cards(page).count() == 0


def test_every_word_of_a_search_is_looked_for(opened: Open, tmp_path: Path) -> None:
    of = choices()
    page = opened(file(tmp_path, of))
    page.select_option("#what", "forgotten")
    page.fill("#search", "KITE  math 1")
    found = [flip for flip in of.changed if flip.what == "forgotten" and flip.category == "Math"]
    found = [
        flip
        for flip in found
        if "kite" in (flip.question or "") and "1" in (flip.question or "") + flip.task
    ]
    assert cards(page).count() == len(found) > 1
    assert "kite" in cards(page).first.inner_text()
    page.fill("#search", "no such word")
    assert cards(page).count() == 0
    page.fill("#search", " ")
    assert cards(page).count() > 1


def test_the_order_changes(opened: Open, run_file: Path) -> None:
    page = opened(run_file)
    page.select_option("#what", "forgotten")
    titles = {}
    for order in ("margin", "first", "place"):
        page.select_option("#order", order)
        titles[order] = cards(page).locator("summary .title").all_inner_texts()
    numbers = [int(title.split()[2].rstrip(":")) for title in titles["place"]]
    assert numbers == sorted(numbers)
    assert len({tuple(order) for order in titles.values()}) == 3


def test_more_are_shown_until_all_are(opened: Open, tmp_path: Path) -> None:
    of = choices(600)
    page = opened(file(tmp_path, of))
    page.select_option("#what", "gained")
    there = sum(flip.what == "gained" for flip in of.changed)
    assert 50 < there <= 150
    shown = 50
    while shown < there:
        assert cards(page).count() == shown
        page.click("#more")
        assert (
            page.evaluate(
                "[...document.getElementById('list').children].indexOf(document.activeElement.parentElement)"
            )
            == shown
        )
        shown = min(shown + 50, there)
    assert cards(page).count() == there
    assert not page.locator("#more").is_visible()


def test_an_item_opens_by_keyboard_with_question_options_and_both_answers(
    opened: Open, tmp_path: Path
) -> None:
    of = choices()
    page = opened(file(tmp_path, of))
    page.locator("#search").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    card = cards(page).first
    card.locator("ol.options li").first.wait_for()
    number = int(card.locator(".title").inner_text().split()[2].rstrip(":"))
    flip = next(flip for flip in of.changed if flip.item_id == f"q{number}")
    options = card.locator("ol.options li").all_inner_texts()
    assert [
        text.split("\n")[0].split("right")[0].split("chosen")[0].strip() for text in options
    ] == [f"{colour} {number}" for colour in ("red", "green", "blue", "grey")]
    assert flip.before.chosen is not None
    assert flip.after.chosen is not None
    assert "right, chosen before" in options[flip.before.chosen]
    assert "chosen after" in options[flip.after.chosen]


def test_outputs_are_side_by_side_with_their_difference(opened: Open, tmp_path: Path) -> None:
    long = "step by step " * 200
    page = opened(
        file(tmp_path, written([("It is 7.", "It is 8, I think."), (long + "7", long + "8")]))
    )
    unfold(cards(page).nth(0))
    assert cards(page).nth(0).locator("del").all_inner_texts() == ["7"]
    assert "".join(cards(page).nth(0).locator("ins").all_inner_texts()) == "8, I think"
    unfold(cards(page).nth(1))
    assert (
        cards(page).nth(1).locator("em").first.inner_text()
        == f" … cut here; {len(long) + 1:,} characters in all"
    )
    assert f"Outputs are cut at {LONGEST:,} characters." in page.locator("#items").inner_text()


@pytest.mark.full("desktop", "phone-dark", reason="further screens")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_nothing_is_wider_than_the_screen(
    opened: Open, run_file: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    merged = tmp_path / "merged.html"
    merged.write_text(
        merge_page(made_sweep(("base" * 20, "a-tuned-model-" * 6), target="right-on-sums" * 5))
    )
    for path in (run_file, file(tmp_path, hostile(), title="/a/very/long/path" * 30), merged):
        page = opened(path, width=width, scheme=scheme)
        page.locator(".looks").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        for at in range(min(20, cards(page).count())):
            unfold(cards(page).nth(at))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(
    opened: Open, run_file: Path, scheme: str, media: str
) -> None:
    page = opened(run_file, scheme=scheme)
    unfold(cards(page).first)
    page.emulate_media(media=media, color_scheme=scheme)
    found = page.evaluate(CONTRASTS)
    assert len(found) > 20
    assert {one["what"] for one in found} >= {
        "body",
        ".quiet",
        ".verdict strong",
        ".tag",
        "svg text",
        "select",
        ".alarm",
    }
    too_faint = [one for one in found if one["ratio"] < 4.5]
    assert too_faint == []
    if media == "print":
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"  # also of a page that is read in the dark


def test_a_printed_page_shows_whole_tables_and_no_controls(opened: Open, run_file: Path) -> None:
    page = opened(run_file, width=794)  # A4
    page.emulate_media(media="print")
    assert not page.locator("#filters").is_visible()
    whole = "[...document.querySelectorAll('.scroll')].every((box) => getComputedStyle(box).overflowX === 'visible')"
    assert page.evaluate(whole)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.pdf()[:5] == b"%PDF-"


def test_without_a_script_all_but_the_list_is_there(opened: Open, run_file: Path) -> None:
    with_script, without = opened(run_file), opened(run_file, script=False)
    for part in (
        "header",
        "#summary .facts",
        "#summary blockquote >> nth=0",
        "#curves",
        "#categories",
        "#heatmap",
        "#numbers",
        "#method",
    ):
        assert without.locator(part).inner_text() == with_script.locator(part).inner_text()
    assert not without.locator("#filters").is_visible()
    assert "forgetwatch flips" in without.locator("#items").inner_text()


def test_headings_fields_and_figures_have_names(opened: Open, run_file: Path) -> None:
    page = opened(run_file)
    unfold(cards(page).first)
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].map((node) => +node.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - sooner <= 1 for sooner, later in pairwise(levels))
    nameless = "[...document.querySelectorAll('select, input')].filter((node) => !node.labels.length).length"
    assert page.evaluate(nameless) == 0
    assert page.evaluate(
        "[...document.querySelectorAll('svg')].every((node) => node.getAttribute('role') === 'img' && node.ariaLabel)"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].every((node) => node.tabIndex === 0 && node.ariaLabel)"
    )
    assert page.locator("#count").get_attribute("role") == "status"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))


def test_foreign_text_is_shown_and_not_run(opened: Open, tmp_path: Path) -> None:
    of = hostile()
    page = opened(file(tmp_path, of, title=f"{HOSTILE[1]}\ud800"))
    page.select_option("#what", "forgotten")
    while page.locator("#more").is_visible():
        page.click("#more")
    assert cards(page).count() == len(of.changed) == 2 * len(HOSTILE)
    for at in range(cards(page).count()):
        unfold(cards(page).nth(at))
    shown = plain(page.evaluate("document.querySelector('main').textContent"))
    for text in HOSTILE[:-1]:
        assert plain(visible(text)) in shown
    assert "\x00" not in shown
    assert HOSTILE[1] in page.locator("header").text_content()
    for place in (
        "#list .question",
        "#list li",
        "#list .outputs",
        "#category",
        "#numbers th",
        "#numbers li",
    ):
        texts = plain(" ".join(page.locator(place).all_text_contents()))
        assert "<script>alert(1)</script>" in texts, place
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.querySelectorAll('style:not(svg style)').length") == 1
    for made_of_text in (
        "main img",
        "main iframe",
        "main b",
        "main [onerror]",
        "main [onload]",
        "main script",
    ):
        assert page.locator(made_of_text).count() == 0
    assert page.evaluate(
        "[...document.querySelectorAll('svg text')].some((node) => node.textContent.includes('<script>'))"
    )
    assert page.locator("#list .question").first.inner_text().count("cut here") == 1


def curve(page: Any) -> dict[str, float]:
    box: dict[str, float] = page.locator("#chart .u-over").bounding_box()
    return box


def test_hovering_over_a_look_shows_its_counts_and_interval(opened: Open, run_file: Path) -> None:
    page = opened(run_file, unfold=False)
    box = curve(page)
    assert page.locator("#point").inner_text().startswith("step 160, all questions: ")
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 2)
    said = page.locator("#point").inner_text()
    assert re.fullmatch(
        r"step 80, [\w ]+: [\d.]+ % \(-?[\d.]+ to [\d.]+\); \d+ lost, \d+ gained of \d+", said
    )
    page.locator("#views button").nth(1).click()
    assert re.fullmatch(
        r"step 80, [\w ]+: [-+][\d.]+ points \([-+][\d.]+ to [-+]?[\d.]+\); \d+ lost, \d+ gained of \d+",
        page.locator("#point").inner_text(),
    )
    assert page.locator("#views button[aria-pressed=true]").inner_text() == "net change, points"


def test_a_click_on_a_look_lists_the_questions_first_forgotten_there(
    opened: Open, run_file: Path
) -> None:
    page = opened(run_file, unfold=False)
    box = curve(page)
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 2)
    cards(page).first.wait_for()
    assert page.locator("#look").input_value() == "80"
    assert page.locator("#what").input_value() == "forgotten"
    unfold(cards(page).first)
    assert "at step 80" in cards(page).first.locator(".body").inner_text()


def test_a_click_on_a_category_lists_its_questions(opened: Open, run_file: Path) -> None:
    page = opened(run_file, unfold=False)
    page.locator("#summary .link").first.click()
    cards(page).first.wait_for()
    assert (
        page.locator("#category").input_value() == page.locator("#summary .link").first.inner_text()
    )


def test_the_keyboard_moves_along_the_curve_and_lists_questions(
    opened: Open, run_file: Path
) -> None:
    page = opened(run_file, unfold=False)
    page.locator("#chart").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#point").inner_text().startswith("step 120, all questions: ")
    page.keyboard.press("ArrowDown")
    category = page.locator("#point").inner_text().split(": ")[0].removeprefix("step 120, ")
    assert category == page.locator("#summary .link").first.inner_text()
    page.keyboard.press("Enter")
    cards(page).first.wait_for()
    assert (page.locator("#look").input_value(), page.locator("#category").input_value()) == (
        "120",
        category,
    )


def test_without_a_script_and_on_paper_the_curve_is_a_drawing(opened: Open, run_file: Path) -> None:
    bare = opened(run_file, script=False, unfold=False)
    assert bare.locator(".still svg").is_visible()
    assert not bare.locator("#chart").is_visible()
    page = opened(run_file, unfold=False)
    assert not page.locator(".still svg").is_visible()
    page.emulate_media(media="print")
    assert page.locator(".still svg").is_visible()
    assert not page.locator("#chart").is_visible()


@pytest.mark.parametrize("width", [1280, 400])
def test_the_first_screen_has_verdict_curve_and_lost_questions(
    opened: Open, run_file: Path, width: int
) -> None:
    page = opened(run_file, width=width, unfold=False)
    for part in (".verdict", "#chart", "#summary blockquote >> nth=2"):
        assert page.locator(part).is_visible()
    bottom = page.locator("#summary blockquote").nth(2).bounding_box()
    assert width < 1000 or bottom["y"] + bottom["height"] < 800
