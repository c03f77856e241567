"""Every template compiles, and the files that templates include or extend exist."""

import re

from django.conf import settings
from django.template.loader import get_template

FOLDER = settings.BASE_DIR / "templates"
INCLUDED = re.compile(r"\{% (?:include|extends) \"([^\"]+)\"")


def test_every_template_compiles_and_names_existing_files() -> None:
    names = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert len(names) > 100
    for name in names:
        get_template(name)
        assert names.issuperset(INCLUDED.findall((FOLDER / name).read_text(encoding="utf-8"))), name
