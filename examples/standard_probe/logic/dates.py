"""Logic: weekdays, dates and calendars, and times on clocks."""

from __future__ import annotations

import calendar
import datetime
import random

from standard_probe.drafts import Draft, Number, Plan, near, numeric, worded, yes_or_no

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def _weekdays_near(rng: random.Random, right: int) -> list[str]:
    return [DAYS[(right + step) % 7] for step in rng.sample((-2, -1, 1, 2, 3), 5)]


def _weekday(rng: random.Random, turn: int) -> Draft:
    today, days = rng.randrange(7), rng.randint(9, 60)
    while days % 7 == 0:
        days += 1
    back = turn % 2 == 1
    right = (today - days if back else today + days) % 7
    prompt = rng.choice(
        (
            f"Today is {DAYS[today]}. What day of the week was it {days} days ago?",
            f"If today is {DAYS[today]}, what weekday was {days} days ago?",
            f"{days} days ago, what weekday was it, if today is {DAYS[today]}?",
        )
        if back
        else (
            f"Today is {DAYS[today]}. What day of the week will it be in {days} days?",
            f"If today is {DAYS[today]}, what weekday is it {days} days from now?",
            f"In {days} days, what weekday will it be, if today is {DAYS[today]}?",
        )
    )
    return worded(prompt, DAYS[right], _weekdays_near(rng, right), uses=f"{today}{'-' if back else '+'}{days}")


def _same_month(rng: random.Random, turn: int) -> Draft:
    month, first, later, day = rng.choice(MONTHS), rng.randint(1, 9), rng.randint(15, 28), rng.randrange(7)
    while (later - first) % 7 == 0:
        later -= 1
    right = (day + later - first) % 7
    prompt = rng.choice(
        (
            f"If {month} {first} is a {DAYS[day]}, what weekday is {month} {later} of the same year?",
            f"In some year {month} {first} falls on a {DAYS[day]}. On which weekday does {month} {later} fall?",
            f"A calendar shows {month} {first} as a {DAYS[day]}. Which weekday is {month} {later} on that page?",
        )
    )
    return worded(prompt, DAYS[right], _weekdays_near(rng, right), uses=f"{month} {first} {later} {day}")


def _date_after(rng: random.Random, turn: int) -> Draft:
    start = datetime.date(2023, rng.choice((3, 4, 5, 6, 7, 8, 9, 10, 11)), rng.randint(8, 28))
    days = rng.randint(12, 45)
    steps = (0, 1, -1, 2, -2)
    right, *wrong = (
        f"{MONTHS[date.month - 1]} {date.day}" for date in (start + datetime.timedelta(days + step) for step in steps)
    )
    shown = f"{MONTHS[start.month - 1]} {start.day}"
    prompt = rng.choice(
        (
            f"What date is {days} days after {shown}?",
            f"A parcel sent on {shown} arrives {days} days later. On what date does it arrive?",
            f"Counting {days} days on from {shown}, which date is reached?",
        )
    )
    rng.shuffle(wrong)
    return worded(prompt, right, wrong, uses=f"{shown}+{days}")


def _days_between(rng: random.Random, turn: int) -> Draft:
    start = datetime.date(2023, rng.choice((3, 4, 5, 6, 7, 8, 9, 10)), rng.randint(3, 27))
    end = start + datetime.timedelta(rng.randint(25, 60))
    right = (end - start).days
    a, b = (f"{MONTHS[date.month - 1]} {date.day}" for date in (start, end))
    prompt = rng.choice(
        (
            f"How many days after {a} is {b} of the same year?",
            f"How many days pass from noon on {a} to noon on {b} of the same year?",
            f"It is {a}. In how many days will it be {b}?",
        )
    )
    return numeric(prompt, right, near(right, 1, 2, 3, 10), uses=f"{a} to {b}")


def _leap_year(rng: random.Random, turn: int) -> Draft:
    wanted = turn % 2 == 0
    year = rng.choice((rng.randint(1850, 2180), rng.randint(16, 24) * 100, rng.randint(460, 540) * 4))
    while calendar.isleap(year) != wanted:
        year = rng.choice((rng.randint(1850, 2180), rng.randint(16, 24) * 100))
    prompt = rng.choice(
        (
            f"By the rules of the Gregorian calendar, is {year} a leap year?",
            f"Does February have 29 days in the year {year} of the Gregorian calendar?",
            f"Does the year {year} have 366 days in the Gregorian calendar?",
        )
    )
    return yes_or_no(prompt, wanted, uses=f"leap {year}")


def _clock(minutes: Number) -> str:
    hours, rest = divmod(int(minutes) % 1440, 60)
    return f"{hours:02d}:{rest:02d}"


def _length(minutes: Number) -> str:
    hours, rest = divmod(int(minutes), 60)
    return f"{hours} h {rest} min"


def _arrival(rng: random.Random, turn: int) -> Draft:
    start, takes = rng.randint(6 * 60, 18 * 60), rng.randint(65, 290)
    while (start % 60 + takes % 60) < 60:
        start, takes = rng.randint(6 * 60, 18 * 60), rng.randint(65, 290)
    right = start + takes
    what = rng.choice(("train", "bus", "ferry", "coach"))
    prompt = rng.choice(
        (
            f"A {what} leaves at {_clock(start)} and travels for {_length(takes)}. When does it arrive?",
            f"A trip by {what} starts at {_clock(start)} and lasts {_length(takes)}. At what time does it end?",
            f"It takes a {what} {_length(takes)} for its way. It set out at {_clock(start)}. When is it there?",
        )
    )
    return numeric(prompt, right, near(right, 60, 10, 20, 40), uses=f"{start}+{takes}", form=_clock)


def _elapsed(rng: random.Random, turn: int) -> Draft:
    start = rng.randint(6 * 60, 16 * 60)
    right = rng.randint(70, 330)
    while (start % 60 + right % 60) < 60:
        start, right = rng.randint(6 * 60, 16 * 60), rng.randint(70, 330)
    what = rng.choice(("film", "meeting", "match", "walk", "concert"))
    prompt = rng.choice(
        (
            f"A {what} begins at {_clock(start)} and ends at {_clock(start + right)}. How long does it last?",
            f"How much time passes between {_clock(start)} and {_clock(start + right)} on the same day?",
            f"From {_clock(start)} to {_clock(start + right)} on one day there is a {what}. How long is that?",
        )
    )
    return numeric(prompt, right, near(right, 60, 10, 20, 40), uses=f"{start} to {start + right}", form=_length)


def _past_midnight(rng: random.Random, turn: int) -> Draft:
    start, right = rng.randint(20 * 60, 23 * 60 + 50), rng.randint(250, 560)
    end = start + right
    prompt = rng.choice(
        (
            f"A night shift runs from {_clock(start)} to {_clock(end)} the next morning. How long is it?",
            f"Someone falls asleep at {_clock(start)} and wakes at {_clock(end)} the next day. How long was the sleep?",
            f"A night train departs at {_clock(start)} and arrives at {_clock(end)} next day. How long is the ride?",
        )
    )
    return numeric(prompt, right, near(right, 60, 120, 10, 30), uses=f"{start} to {end}", form=_length)


def _latest_start(rng: random.Random, turn: int) -> Draft:
    due, walk, pack = rng.randint(8 * 60, 20 * 60), rng.randint(17, 55), rng.randint(12, 48)
    right = due - walk - pack
    prompt = rng.choice(
        (
            f"A bus goes at {_clock(due)}. Packing takes {pack} minutes and the walk to the stop {walk} minutes. "
            "What is the latest time to start packing?",
            f"To be at a door by {_clock(due)}, one needs {pack} minutes to dress and then {walk} minutes to walk. "
            "When must one begin to dress at the latest?",
            f"A class starts at {_clock(due)}. Breakfast takes {pack} minutes, the way after it {walk} minutes. "
            "When must breakfast begin at the latest?",
        )
    )
    mistakes = [due - walk, due - pack, right - walk, *near(right, 10, 60, 5)]
    return numeric(prompt, right, mistakes, uses=f"{due}-{walk}-{pack}", form=_clock)


def _zones(rng: random.Random, turn: int) -> Draft:
    here, ahead, flight = rng.randint(7 * 60, 12 * 60), rng.choice((-5, -4, -3, -2, 2, 3, 4, 5)), rng.randint(3, 8) * 60
    flight += rng.choice((10, 20, 35, 50))
    right = here + flight + ahead * 60
    word = f"{abs(ahead)} hours {'ahead of' if ahead > 0 else 'behind'}"
    prompt = rng.choice(
        (
            f"A plane leaves city A at {_clock(here)} local time and flies for {_length(flight)} to B, whose clocks "
            f"are {word} those of A. What is the local time on arrival?",
            f"Clocks in city B are {word} those in city A. A plane starts from A at {_clock(here)} by the clocks there "
            f"and flies for {_length(flight)} to B. What do the clocks in B show then?",
        )
    )
    mistakes = [right - 2 * ahead * 60, right - ahead * 60, *near(right, 60, 120, 10)]
    return numeric(prompt, right, mistakes, uses=f"{here},{ahead},{flight}", form=_clock)


TOPICS: dict[str, Plan] = {
    "calendars": (
        (_weekday, 1, 6),
        (_same_month, 2, 5),
        (_date_after, 2, 5),
        (_days_between, 3, 5),
        (_leap_year, 1, 6),
    ),
    "time": ((_elapsed, 1, 6), (_arrival, 1, 6), (_latest_start, 2, 5), (_past_midnight, 2, 4), (_zones, 3, 5)),
}
