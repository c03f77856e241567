"""The German of the workers' pages: complete, compiled, and its numbers in place. Needs no gettext tools."""

import gettext
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation

from annotation import payloads, refusals
from annotation.models import Project
from annotation.refusals import Refused

CATALOGUE = Path(settings.BASE_DIR) / "locale" / "de" / "LC_MESSAGES" / "django"
WORKER_PAGES = [f"annotation/{page}" for page in ("judge", "welcome", "thanks", "not_open", "_help", "_deliver")]
MODEL_PAGES = [
    f"modelling/{page}"
    for page in (
        "model", "_model", "_compare_form", "_versions_table", "version", "_version", "_pin", "_version_origin",
        "_version_course", "compare", "_compare", "_moves", "model_settings", "_search", "_search_table", "_freshness",
        "_progress", "_no_arrays", "no_arrays", "_scoreboard",
    )
]  # fmt: skip
ENTRY = re.compile(
    r'^msgid "(.+)"\n(?:msgid_plural "(.+)"\n)?msgstr(?:\[0\])? "(.*)"\n(?:msgstr\[1\] "(.*)"\n)?', re.MULTILINE
)
TRANSLATE = re.compile(r"""\{% translate (["'])(.+?)\1 %\}""")
PLACE = re.compile(r"\{\w+\}|%\(\w+\)s")


def catalogue() -> dict[tuple[str, int], str]:
    """The readable catalogue: German by the English string and the number of the plural form."""
    found = ENTRY.findall(CATALOGUE.with_suffix(".po").read_text(encoding="utf-8"))
    singular = {(english, 0): german for english, _plural, german, _germans in found}
    return singular | {(english, 1): germans for english, plural, _german, germans in found if plural}


def words_of(page: str) -> set[str]:
    source = (Path(settings.BASE_DIR) / "templates" / f"{page}.html").read_text(encoding="utf-8")
    return {words for _quote, words in TRANSLATE.findall(source)}


@pytest.mark.parametrize("page", WORKER_PAGES + MODEL_PAGES)
def test_every_string_of_a_workers_page_and_of_the_models_pages_is_in_the_german_catalogue(page: str) -> None:
    assert words_of(page) - {english for (english, _form), german in catalogue().items() if german} == set()


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
    assert [words for words in catalogue().items() if places(words[0][0]) != places(words[1])] == []


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
