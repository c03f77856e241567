"""The German catalogue is complete, compiled and keeps all placeholders. Needs no gettext tools."""

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

from annotation import exceptions
from annotation.exceptions import RequestError
from annotation.http import json_body
from annotation.models import Project

ROOT = Path(settings.BASE_DIR)
CATALOGUE = ROOT / "locale" / "de" / "LC_MESSAGES" / "django"
TEMPLATES = sorted(path for path in (ROOT / "templates").rglob("*") if path.suffix in {".html", ".txt"})
# The API and the texts of models, which mostly appear in the administration, may stay in English.
UNTRANSLATED = re.compile(r"(annotation|modelling)/(admin|web/api/|models/|migrations/)")
MODULES = sorted(path for app in ("annotation", "modelling") for path in (ROOT / app).rglob("*.py"))
PAGES = [path for path in MODULES if not UNTRANSLATED.match(path.relative_to(ROOT).as_posix())]
GETTEXT_FUNCTIONS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
ENTRY = re.compile(
    r'^msgid "(.+)"\n(?:msgid_plural "(.+)"\n)?msgstr(?:\[0\])? "(.*)"\n(?:msgstr\[1\] "(.*)"\n)?', re.MULTILINE
)
TEMPLATE_MESSAGE = re.compile(r"""(?:_|gettext)\(\s*u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
PLACEHOLDER = re.compile(r"\{\w+\}|%\(\w+\)[.\d]*[a-zA-Z]")


def read_catalogue() -> dict[tuple[str, int], str]:
    """German messages of the .po file by English message and plural form."""
    text = CATALOGUE.with_suffix(".po").read_text(encoding="utf-8").replace('"\n"', "")  # join wrapped lines
    found = [[part.replace('\\"', '"').replace("\\n", "\n") for part in entry] for entry in ENTRY.findall(text)]
    singular = {(english, 0): german for english, _plural, german, _germans in found}
    return singular | {(english, 1): germans for english, plural, _german, germans in found if plural}


def find_messages(path: Path) -> set[str]:
    """Translatable messages of a template or module."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return {ast.literal_eval(quoted) for quoted in TEMPLATE_MESSAGE.findall(templatize(source))}
    return set(_find_calls(ast.parse(source)))


def _find_calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(message)), *_rest]) if (
                name in GETTEXT_FUNCTIONS
            ):
                yield message


@pytest.mark.parametrize("paths", [TEMPLATES, PAGES], ids=["templates", "modules"])
def test_every_message_has_a_german_translation(paths: list[Path]) -> None:
    german = {english for (english, _form), german in read_catalogue().items() if german}
    missing = {(path.name, message) for path in paths for message in find_messages(path) - german}
    assert missing == set()


def test_every_request_error_is_translated() -> None:
    errors = {each for module in (exceptions, json_body) for each in vars(module).values() if _is_request_error(each)}
    for error in errors:
        english = [str(error.title), str(error.detail)]
        with translation.override("de"):
            assert not set(english) & {str(error.title), str(error.detail)}, error.__name__


def _is_request_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, RequestError)


def test_the_compiled_catalogue_is_up_to_date() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    messages = {key if isinstance(key, tuple) else (key, 0): german for key, german in compiled.items() if key}
    assert messages == read_catalogue()


def test_translations_keep_the_placeholders() -> None:
    plurals = {entry[0]: entry[1] for entry in ENTRY.findall(CATALOGUE.with_suffix(".po").read_text(encoding="utf-8"))}
    wrong = []
    for (english, form), german in read_catalogue().items():
        source = plurals[english] if form else english
        if find_placeholders(source) != find_placeholders(german):
            wrong.append((source, german))
    assert wrong == []


def find_placeholders(text: str) -> list[str]:
    return sorted(PLACEHOLDER.findall(text))


def test_the_pages_of_a_german_study_are_german_in_any_browser(project: Project, client: Client) -> None:
    Project.objects.update(consent="Wir speichern Ihre Antworten.")
    Project.objects.filter(pk=project.pk).update(language="de")
    page = client.get("/s/pets/", headers={"accept-language": "fr"}).content.decode()
    assert '<html lang="de"' in page
    assert "Ich habe dies gelesen und möchte teilnehmen." in page
    assert "9 Paare kurzer Texte" in page


def test_a_study_in_an_untranslated_language_has_english_pages(project: Project, client: Client) -> None:
    Project.objects.filter(pk=project.pk).update(language="ar", direction="rtl", question="أي الحجتين أكثر إقناعا؟")
    page = client.get("/s/pets/").content.decode()
    assert '<html lang="en"' in page
    assert '<h1 lang="ar" dir="rtl">أي الحجتين أكثر إقناعا؟</h1>' in page
