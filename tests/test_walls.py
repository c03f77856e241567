"""Which rooms may see which: held by import-linter, and here by what is really loaded."""

import subprocess
import sys

import pytest
from django.conf import settings

LOADED = "import sys; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"


def loaded_by(statement: str) -> set[str]:
    """The top-level packages a fresh Python has loaded after this statement."""
    command = [sys.executable, "-c", f"{statement}; {LOADED}"]
    ran = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stdout.split())


@pytest.mark.slow
def test_annotation_never_loads_modelling_or_numpy() -> None:
    setup = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings.test'; import django;"
        "from django.conf import settings; settings.INSTALLED_APPS.remove('modelling'); django.setup();"
        "import annotation.views.judging, annotation.views.projects, annotation.views.items, annotation.views.imports,"
        " annotation.views.members, annotation.views.home, annotation.services, annotation.admin"
    )
    assert not {"modelling", "numpy", "scipy", "sklearn"} & loaded_by(setup)


@pytest.mark.slow
def test_the_numerical_core_never_loads_django_or_the_rest() -> None:
    assert not {"django", "channels", "annotation", "config"} & loaded_by("import modelling.crowdgppl")


@pytest.mark.slow
def test_import_linter_agrees() -> None:
    linted = subprocess.run(
        [sys.executable, "-m", "importlinter.cli", "lint"], cwd=settings.BASE_DIR, capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout
