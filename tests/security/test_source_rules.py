"""Rules about the source: where CSRF checks, escaping, pickles and SQL may be an exception."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = [ROOT / name for name in ("annotation", "config", "modelling")]
PAGES = [*PRODUCT, ROOT / "templates", ROOT / "static"]
# Each exception has a reason beside it in the source.
RULES = {
    r"@csrf_exempt": {"annotation/views/imports/steps.py", "annotation/views/recruitment/prolific_webhook.py"},
    r"\bmark_safe\(": {"annotation/templatetags/qr_codes.py", "annotation/templatetags/worker_texts.py"},
    r"\|\s*safe\b|autoescape off": set(),
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b": set(),
    r"\bpickle\.loads?\b|\bjoblib\b|\bmarshal\b|yaml\.load|(?<![\w.])(eval|exec)\(": set(),
    r"\.raw\(|\.extra\(\s*(where|select)|RawSQL\(": set(),
    r"allow_pickle=True": set(),
    r"verify\s*=\s*False|CERT_NONE|_create_unverified_context": set(),
}


def sources(folders: list[Path]) -> list[Path]:
    kinds = (".py", ".html", ".js")
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    return [path for path in found if "vendor" not in path.parts and "migrations" not in path.parts]


@pytest.mark.parametrize("pattern", RULES)
def test_a_dangerous_construct_appears_only_where_it_is_allowed(pattern: str) -> None:
    expression = re.compile(pattern)
    found = {
        str(path.relative_to(ROOT)) for path in sources(PAGES) if expression.search(path.read_text(encoding="utf-8"))
    }
    assert found == RULES[pattern]


def test_no_key_or_password_is_part_of_the_source() -> None:
    """A literal of 32 characters or more assigned to a name of a secret."""
    literal = re.compile(r"""(?i)(secret|password|token|api_?key)\w*\s*=\s*["'][A-Za-z0-9+/=_-]{32,}["']""")
    assert [str(path) for path in sources(PRODUCT) if literal.search(path.read_text(encoding="utf-8"))] == []
