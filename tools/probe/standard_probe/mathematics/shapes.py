"""Math: lengths, areas, angles and volumes of shapes."""

from __future__ import annotations

import random

from standard_probe.drafts import Draft, Plan, numeric, yes_or_no


def _rectangle(rng: random.Random, turn: int) -> Draft:
    a, b = rng.sample(range(4, 26), 2)
    right, word = (a * b, "area") if turn % 2 else (2 * (a + b), "perimeter")
    unit = "square meters" if turn % 2 else "meters"
    prompt = rng.choice(
        (
            f"A rectangle is {a} m long and {b} m wide. What is its {word} in {unit}?",
            f"What is the {word}, in {unit}, of a rectangle with sides of {a} m and {b} m?",
            f"A garden measures {a} m by {b} m. What is its {word} in {unit}?",
        )
    )
    return numeric(prompt, right, uses=f"{word} {a}x{b}")


def _triangle_area(rng: random.Random, turn: int) -> Draft:
    base, height = 2 * rng.randint(2, 12), rng.randint(3, 19)
    right = base * height // 2
    prompt = rng.choice(
        (
            f"A triangle has a base of {base} cm and a height of {height} cm. What is its area in square centimeters?",
            f"What is the area, in square centimeters, of a triangle with base {base} cm and height {height} cm?",
            f"The base of a triangle is {base} cm, its height {height} cm. How many square centimeters is its area?",
        )
    )
    return numeric(prompt, right, uses=f"{base}x{height}")


def _third_angle(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(21, 95), rng.randint(17, 70)
    right = 180 - a - b
    prompt = rng.choice(
        (
            f"Two angles of a triangle are {a}° and {b}°. What is the third?",
            f"A triangle has angles of {a}° and {b}°. How large is its third angle?",
            f"In a triangle one angle is {a}° and another {b}°. How large is the remaining one?",
        )
    )
    return numeric(prompt, right, uses=f"{a},{b}", form=lambda n: f"{n}°")


def _circle(rng: random.Random, turn: int) -> Draft:
    r = rng.randint(3, 15)
    area = turn % 2 == 0
    right = r * r if area else 2 * r
    word, unit = ("area", "square centimeters") if area else ("circumference", "centimeters")
    prompt = rng.choice(
        (
            f"What is the {word} of a circle with radius {r} cm, in {unit}, as a multiple of π?",
            f"A circle has radius {r} cm. What is its {word} in {unit}, as a multiple of π?",
            f"As a multiple of π, what is the {word}, in {unit}, of a circle whose radius is {r} cm?",
        )
    )
    return numeric(prompt, right, uses=f"{word} {r}", form=lambda n: f"{n}π")


def _hypotenuse(rng: random.Random, turn: int) -> Draft:
    a, b, c = rng.choice(((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29)))
    scale = rng.randint(1, 4)
    a, b, c = a * scale, b * scale, c * scale
    if turn % 2:
        prompt = rng.choice(
            (
                f"The shorter sides of a right triangle are {a} cm and {b} cm. How long is its hypotenuse in cm?",
                f"What is the hypotenuse, in cm, of a right triangle whose legs are {a} cm and {b} cm?",
            )
        )
        return numeric(prompt, c, uses=f"hypotenuse {a},{b}")
    prompt = rng.choice(
        (
            f"A right triangle has a hypotenuse of {c} cm and one leg of {a} cm. How long is the other leg in cm?",
            f"The hypotenuse of a right triangle is {c} cm, one leg {a} cm. What is the other leg in cm?",
        )
    )
    return numeric(prompt, b, uses=f"leg {c},{a}")


def _box(rng: random.Random, turn: int) -> Draft:
    a, b, c = (rng.randint(3, 12) for _ in range(3))
    volume, surface = a * b * c, 2 * (a * b + b * c + a * c)
    if turn % 2:
        right, what = volume, "volume in cubic centimeters"
    else:
        right, what = surface, "surface area in square centimeters"
    prompt = rng.choice(
        (
            f"A box measures {a} cm by {b} cm by {c} cm. What is its {what}?",
            f"The edges of a box are {a} cm, {b} cm and {c} cm long. What is its {what}?",
            f"A block is {a} cm long, {b} cm wide and {c} cm high. What is its {what}?",
        )
    )
    return numeric(prompt, right, uses=f"{what} {a},{b},{c}")


def _polygon(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(5, 14)
    if turn % 2:
        right = 180 * (n - 2)
        prompt = rng.choice(
            (
                f"What is the sum of the interior angles of a polygon with {n} sides?",
                f"The interior angles of a polygon with {n} sides are added up. What is the sum?",
            )
        )
        return numeric(prompt, right, uses=f"angles {n}", form=lambda x: f"{x}°")
    right = n * (n - 3) // 2
    prompt = rng.choice(
        (
            f"How many diagonals does a convex polygon with {n} sides have?",
            f"What is the number of diagonals in a convex polygon with {n} sides?",
        )
    )
    return numeric(prompt, right, uses=f"diagonals {n}")


def _triangle_claim(rng: random.Random, turn: int) -> Draft:
    a, b = rng.randint(4, 14), rng.randint(4, 14)
    c = a + b + rng.randint(1, 4) if turn % 2 else a + b - rng.randint(1, 3)
    sides = rng.sample((a, b, c), 3)
    listed = f"{sides[0]} cm, {sides[1]} cm and {sides[2]} cm"
    prompt = rng.choice(
        (
            f"Can a triangle have sides of {listed}?",
            f"Is there a triangle with sides of {listed}?",
            f"Is it possible to draw a triangle whose sides are {listed} long?",
        )
    )
    return yes_or_no(prompt, 2 * max(sides) < sum(sides), uses=f"triangle {sorted(sides)}")


TOPICS: dict[str, Plan] = {
    "geometry": (
        *((_rectangle, 1, 3), (_third_angle, 1, 2), (_triangle_area, 2, 2), (_box, 2, 1), (_triangle_claim, 2, 2)),
        *((_circle, 3, 1), (_hypotenuse, 3, 1), (_polygon, 3, 2)),
    ),
}
