"""Logic: weekdays, dates and calendars, and times on clocks."""

from __future__ import annotations

import calendar
import datetime
import random

from standard_probe.drafts import Draft, Number, Plan, numeric, worded, yes_or_no

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


def _other_days(rng: random.Random, *days: int) -> list[str]:
    """The days of the week but for those of the question and the answer."""
    return [DAYS[day] for day in rng.sample(range(7), 7) if day not in days]


def _weekday(rng: random.Random, turn: int) -> Draft:
    today, days = rng.randrange(7), rng.randint(8, 20)
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
    return worded(prompt, DAYS[right], _other_days(rng, today, right), uses=f"{today}{'-' if back else '+'}{days}")


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
    return worded(prompt, DAYS[right], _other_days(rng, day, right), uses=f"{month} {first} {later} {day}")


def _date_after(rng: random.Random, turn: int) -> Draft:
    start = datetime.date(2023, rng.choice((3, 4, 5, 6, 7, 8, 9, 10, 11)), rng.randint(8, 28))
    days = rng.randint(12, 45)
    end = start + datetime.timedelta(days)
    shown = f"{MONTHS[start.month - 1]} {start.day}"
    prompt = rng.choice(
        (
            f"What date is {days} days after {shown}?",
            f"A parcel sent on {shown} arrives {days} days later. On what date does it arrive?",
            f"Which date is reached {days} days after {shown}?",
        )
    )
    # Dates of one month only: a month alone would show which are too early or too late.
    month = f"{end:%m}"
    return numeric(prompt, end.toordinal(), uses=f"{shown}+{days}", form=_date, like=month)


def _date(ordinal: Number) -> str:
    date = datetime.date.fromordinal(int(ordinal))
    return f"{MONTHS[date.month - 1]} {date.day}"


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
    return numeric(prompt, right, uses=f"{a} to {b}")


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


def clock(minutes: Number) -> str:
    """The time of day, so many minutes after midnight."""
    hours, rest = divmod(int(minutes) % 1440, 60)
    return f"{hours:02d}:{rest:02d}"


def duration(minutes: Number) -> str:
    """The hours and minutes of a number of minutes."""
    hours, rest = divmod(int(minutes), 60)
    return f"{hours} h {rest} min"


def _arrival(rng: random.Random, turn: int) -> Draft:
    start, takes = rng.randint(6 * 60, 18 * 60), rng.randint(65, 290)
    while (start % 60 + takes % 60) < 60:
        start, takes = rng.randint(6 * 60, 18 * 60), rng.randint(65, 290)
    right = start + takes
    what = rng.choice(("train", "bus", "ferry", "tram"))
    prompt = rng.choice(
        (
            f"A {what} leaves at {clock(start)} and travels for {duration(takes)}. When does it arrive?",
            f"A trip by {what} starts at {clock(start)} and lasts {duration(takes)}. At what time does it end?",
        )
    )
    return numeric(prompt, right, uses=f"{start}+{takes}", form=clock)


def _elapsed(rng: random.Random, turn: int) -> Draft:
    start = rng.randint(6 * 60, 16 * 60)
    right = rng.randint(70, 330)
    while (start % 60 + right % 60) < 60:
        start, right = rng.randint(6 * 60, 16 * 60), rng.randint(70, 330)
    what = rng.choice(("film", "meeting", "match", "walk", "concert"))
    prompt = rng.choice(
        (
            f"A {what} begins at {clock(start)} and ends at {clock(start + right)}. How long does it last?",
            f"How much time passes between {clock(start)} and {clock(start + right)} on the same day?",
            f"From {clock(start)} to {clock(start + right)} on one day there is a {what}. How long is that?",
        )
    )
    return numeric(prompt, right, uses=f"{start} to {start + right}", form=duration)


def _past_midnight(rng: random.Random, turn: int) -> Draft:
    start, right = rng.randint(20 * 60, 23 * 60 + 50), rng.randint(250, 560)
    end = start + right
    prompt = rng.choice(
        (
            f"A night shift runs from {clock(start)} to {clock(end)} the next morning. How long is it?",
            f"Someone falls asleep at {clock(start)} and wakes at {clock(end)} the next day. How long was the sleep?",
            f"A night train departs at {clock(start)} and arrives at {clock(end)} next day. How long is the ride?",
        )
    )
    return numeric(prompt, right, uses=f"{start} to {end}", form=duration)


def _latest_start(rng: random.Random, turn: int) -> Draft:
    due, walk, pack = rng.randint(8 * 60, 20 * 60), rng.randint(17, 55), rng.randint(12, 48)
    right = due - walk - pack
    prompt = rng.choice(
        (
            f"A bus goes at {clock(due)}. Packing takes {pack} minutes and the walk to the stop {walk} minutes. "
            "What is the latest time to start packing?",
            f"To be at a door by {clock(due)}, one needs {pack} minutes to dress and then {walk} minutes to walk. "
            "When must one begin to dress at the latest?",
            f"A class starts at {clock(due)}. Breakfast takes {pack} minutes, and the way to school {walk} minutes. "
            "When must breakfast begin at the latest?",
        )
    )
    return numeric(prompt, right, uses=f"{due}-{walk}-{pack}", form=clock)


def _minutes_later(rng: random.Random, turn: int) -> Draft:
    start, more = 60 * rng.randint(6, 20) + 5 * rng.randint(1, 4), 5 * rng.randint(2, 6)
    prompt = rng.choice(
        (
            f"It is {clock(start)}. What time will it be in {more} minutes?",
            f"A clock shows {clock(start)}. What does it show {more} minutes later?",
        )
    )
    return numeric(prompt, start + more, uses=f"{start}+{more}", form=clock)


TOPICS: dict[str, Plan] = {
    "calendars": (
        *((_weekday, 1, 5), (_same_month, 2, 3), (_leap_year, 2, 2)),
        *((_date_after, 3, 2), (_days_between, 3, 2)),
    ),
    "time": (
        *((_minutes_later, 1, 5), (_elapsed, 2, 2), (_arrival, 2, 3)),
        *((_latest_start, 3, 2), (_past_midnight, 3, 2)),
    ),
}
