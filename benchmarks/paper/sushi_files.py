"""Kamishima's sushi3-2016 files as arrays, and generated files of the same format for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

ORDERS_A, ORDERS_B, ITEMS, USERS = FILES = (
    "sushi3a.5000.10.order", "sushi3b.5000.10.order", "sushi3.idata", "sushi3.udata"
)  # fmt: skip
SET_A_ROWS = np.array([0, 1, 2, 3, 4, 6, 7, 8, 26, 29])  # the items of set A are these rows of sushi3.idata
ITEM_CATEGORIES, ITEM_NUMBERS = (2, 3, 4), (5, 6, 7, 8)  # columns of sushi3.idata after id and name
USER_CATEGORIES, USER_NUMBERS = (1, 2, 4, 5, 6, 7, 8, 9, 10), (3,)  # columns of sushi3.udata after the id


@dataclass(frozen=True)
class Sushi:
    """Rankings (best first) and standardised features; categories are one-hot, binary ones a single column."""

    orders_a: np.ndarray  # (U, 10) of the 10 items of set A
    orders_b: np.ndarray  # (U, 10) of 100 items
    items: np.ndarray  # (100, D)
    users: np.ndarray  # (U, E)
    description: str

    @property
    def items_a(self) -> np.ndarray:
        """Features of the items of set A."""
        return self.items[SET_A_ROWS]


def read_sushi(folder: Path) -> Sushi:
    """Read the four files."""
    orders_a, orders_b = (read_orders(folder / name) for name in (ORDERS_A, ORDERS_B))
    items = features(_table(folder / ITEMS), ITEM_CATEGORIES, ITEM_NUMBERS)
    users = features(_table(folder / USERS), USER_CATEGORIES, USER_NUMBERS)
    if len(users) != len(orders_a) or len(users) != len(orders_b):
        raise ValueError(f"{USERS} has {len(users)} users, the rankings have {len(orders_a)} and {len(orders_b)}.")
    if orders_a.max() >= len(SET_A_ROWS) or orders_b.max() >= len(items):
        raise ValueError("A ranking names an item that does not exist.")
    where = f"{len(users)} users, {items.shape[1]} item features, {users.shape[1]} user features"
    return Sushi(orders_a, orders_b, items, users, where)


def read_orders(path: Path) -> np.ndarray:
    """Each line after the first: 0, the number of items, and the items from best to worst."""
    lines = path.read_text(encoding="ascii").splitlines()[1:]
    rows = [[int(value) for value in row.split()] for row in lines if row.strip()]
    if any(len(row) != row[1] + 2 for row in rows):
        raise ValueError(f"{path.name}: a line does not have the number of items it states.")
    return np.array([row[2:] for row in rows])


def _table(path: Path) -> list[list[str]]:
    text = path.read_bytes().decode("utf-8", errors="replace")  # the names of items are not ASCII
    return [row.split("\t") for row in text.splitlines() if row.strip()]


def features(rows: list[list[str]], categories: tuple[int, ...], numbers: tuple[int, ...]) -> np.ndarray:
    """One-hot categories and standardised numbers."""
    columns = []
    for column in categories:
        values = np.array([row[column] for row in rows])
        kinds = np.unique(values)
        columns += [(values == kind).astype(float) for kind in (kinds[1:] if len(kinds) <= 2 else kinds)]
    for column in numbers:
        number = np.array([float(row[column]) for row in rows])
        columns.append((number - number.mean()) / (number.std() or 1.0))
    return np.column_stack(columns)


def write_generated(folder: Path, n_users: int, seed: int = 0) -> None:
    """Write files of the same format: rankings from a consensus and two tastes, weakly informative features."""
    rng = np.random.default_rng(seed)
    numbers, tastes = rng.standard_normal((100, 4)), rng.standard_normal((n_users, 2))
    utilities = 1.5 * numbers[:, 0] + tastes @ numbers[:, 1:3].T + 0.3 * rng.standard_normal((n_users, 100))
    for name, items in ((ORDERS_A, SET_A_ROWS), (ORDERS_B, np.arange(100))):
        lines = [f"{len(items)} 1"]
        for own in utilities:
            shown = rng.choice(len(items), 10, replace=False)
            ranked = shown[np.argsort(-own[items[shown]])]
            lines.append("0 10 " + " ".join(str(item) for item in ranked))
        (folder / name).write_text("\n".join(lines) + "\n", encoding="ascii")
    kinds = np.column_stack([rng.integers(0, n, 100) for n in (2, 2, 12)])
    rows = [
        "\t".join([str(i), f"寿司{i}", *map(str, kinds[i]), *(f"{value:.4f}" for value in numbers[i])])
        for i in range(100)
    ]
    (folder / ITEMS).write_text("\n".join(rows) + "\n", encoding="utf-8")
    rows = []
    for u in range(n_users):
        places = rng.integers(0, [48, 12, 2, 48, 12, 2])
        person = [u, int(tastes[u, 0] > 0), rng.integers(0, 6), rng.integers(100, 900), *places, rng.integers(0, 2)]
        rows.append("\t".join(str(value) for value in person))
    (folder / USERS).write_text("\n".join(rows) + "\n", encoding="ascii")
