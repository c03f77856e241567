"""The German of every page: complete, compiled, and its numbers in place. Needs no gettext tools."""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation
from django.utils.translation.template import templatize

from annotation import payloads, refusals
from annotation.models import Project
from annotation.refusals import Refused

ROOT = Path(settings.BASE_DIR)
CATALOGUE = ROOT / "locale" / "de" / "LC_MESSAGES" / "django"
TEMPLATES = sorted(path for path in (ROOT / "templates").rglob("*") if path.suffix in {".html", ".txt"})
# What scripts read (the API) and what only the administration shows (help texts of rows) stays in English.
ENGLISH = re.compile(r"(annotation|modelling)/(admin|api/(?!pages|forms)|models/|migrations/)")
MODULES = sorted(path for room in ("annotation", "modelling") for path in (ROOT / room).rglob("*.py"))
PAGES = [path for path in MODULES if not ENGLISH.match(path.relative_to(ROOT).as_posix())]
SAID = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
ENTRY = re.compile(
    r'^msgid "(.+)"\n(?:msgid_plural "(.+)"\n)?msgstr(?:\[0\])? "(.*)"\n(?:msgstr\[1\] "(.*)"\n)?', re.MULTILINE
)
IN_TEMPLATE = re.compile(r"""(?:_|gettext)\(\s*u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
PLACE = re.compile(r"\{\w+\}|%\(\w+\)[.\d]*[a-zA-Z]")


def catalogue() -> dict[tuple[str, int], str]:
    """The readable catalogue: German by the English string and the number of the plural form."""
    lines = CATALOGUE.with_suffix(".po").read_text(encoding="utf-8")
    found = [[words.replace('\\"', '"').replace("\\n", "\n") for words in entry] for entry in ENTRY.findall(lines)]
    singular = {(english, 0): german for english, _plural, german, _germans in found}
    return singular | {(english, 1): germans for english, plural, _german, germans in found if plural}


def words_of(path: Path) -> set[str]:
    """Every string for people that a template or a module names."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return {ast.literal_eval(quoted) for quoted in IN_TEMPLATE.findall(templatize(source))}
    return set(_said_in(ast.parse(source)))


def _said_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(words)), *_rest]) if name in SAID:
                yield words


@pytest.mark.parametrize("paths", [TEMPLATES, PAGES], ids=["templates", "modules"])
def test_every_string_of_every_page_is_in_the_german_catalogue(paths: list[Path]) -> None:
    german = {english for (english, _form), german in catalogue().items() if german}
    missing = {(path.name, words) for path in paths for words in words_of(path) - german}
    assert missing == set()


def test_every_refusal_a_worker_can_meet_is_said_in_german() -> None:
    kinds = {kind for module in (refusals, payloads) for kind in vars(module).values() if _is_refusal(kind)}
    for kind in kinds:
        english = [str(kind.title), str(kind.detail)]
        with translation.override("de"):
            assert not set(english) & {str(kind.title), str(kind.detail)}, kind.__name__


def _is_refusal(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Refused)


def test_the_compiled_catalogue_says_what_the_readable_one_says() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    said = {key if isinstance(key, tuple) else (key, 0): german for key, german in compiled.items() if key}
    assert said == catalogue()


def test_a_translation_keeps_the_places_for_numbers() -> None:
    plurals = {entry[0]: entry[1] for entry in ENTRY.findall(CATALOGUE.with_suffix(".po").read_text(encoding="utf-8"))}
    wrong = []
    for (english, form), german in catalogue().items():
        said = plurals[english] if form else english
        if places(said) != places(german):
            wrong.append((said, german))
    assert wrong == []


def places(words: str) -> list[str]:
    return sorted(PLACE.findall(words))


def test_the_pages_of_a_german_study_are_german_whatever_the_browser_speaks(project: Project, client: Client) -> None:
    Project.objects.filter(pk=project.pk).update(language="de")
    page = client.get("/s/pets/", headers={"accept-language": "fr"}).content.decode()
    assert '<html lang="de"' in page
    assert "Ich habe dies gelesen und möchte teilnehmen." in page
    assert "40 Paare kurzer Texte" in page


def test_a_study_in_a_language_without_translation_has_english_pages_around_its_texts(
    project: Project, client: Client
) -> None:
    Project.objects.filter(pk=project.pk).update(language="ar", direction="rtl", question="أي الحجتين أكثر إقناعا؟")
    page = client.get("/s/pets/").content.decode()
    assert '<html lang="en"' in page
    assert '<h1 lang="ar" dir="rtl">أي الحجتين أكثر إقناعا؟</h1>' in page
