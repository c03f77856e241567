"""docs/model.md lists every equation of the paper, and every name in it exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENGINE = ROOT / "modelling" / "crowdgppl"

# Every \\label{eq:...} and \\label{al:...} of the paper.
LABELS = [
    "eq:thurstone",
    "eq:plphi",
    "eq:predict_z",
    "eq:joint_single",
    "eq:vw_plus_t",
    "eq:joint_crowd",
    "eq:likelihood_approx",
    "eq:svi_approx",
    "eq:fhat_m",
    "eq:qs",
    "eq:lowerbound",
    "eq:S_stochastic",
    "eq:fhat_stochastic",
    "al:singleuser",
    "eq:lowerbound_crowd",
    "eq:predict_crowd",
    "eq:post_single",
    "eq:vblb",
    "eq:full_L_singleuser",
    "eq:lowerbound_crowd_full",
    "eq:Sv",
    "eq:hatv",
    "eq:St",
    "eq:hatt",
    "eq:Sigma",
    "eq:what",
    "al:crowdgppl",
    "eq:tstar",
    "eq:omegastar",
]


def section(title):
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    return text.split(f"## {title}")[1].split("\n## ")[0]


def table(title):
    rows = [line.strip("|\n ").split("|") for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in row] for row in rows[2:]]


@cache
def names_in(path):
    """Functions, classes and methods (as Class.method) of a file."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return names


def test_every_label_of_the_paper_has_a_place():
    assert {label for label, _, _ in table("Where each equation lives")} == set(LABELS)


@pytest.mark.parametrize(("label", "file", "function"), table("Where each equation lives"))
def test_every_place_exists(label, file, function):
    assert function in names_in(ENGINE / file), f"{label}: {file} has no {function}"


def all_tests():
    return set().union(*(names_in(path) for path in Path(__file__).parent.glob("test_*.py")))


def test_every_departure_names_a_test_that_exists():
    named = [row[3] for row in table("Departures from the paper")]
    assert named
    assert set(named) <= all_tests()


def test_every_test_named_in_the_code_exists():
    for path in ENGINE.glob("*.py"):
        for name in re.findall(r"\btest_\w+", path.read_text(encoding="utf-8")):
            assert name in all_tests(), f"{path.name} names {name}"


def test_labels_cited_in_the_code_are_labels_of_the_paper():
    for path in ENGINE.glob("*.py"):
        for label in re.findall(r"\b(?:eq|al):\w+", path.read_text(encoding="utf-8")):
            assert label in LABELS, f"{path.name} cites {label}"
