"""A file, or the table of that name in a folder laid out like UKPConvArg (items.csv, judgements.csv)."""

from pathlib import Path

from django.utils.translation import gettext as _

from annotation.importing.problems import ImportRefused


def table_in(place: str, name: str) -> Path:
    """The file to read, whether the file itself or its folder was named."""
    path = Path(place)
    if path.is_dir():
        path = path / name
    if not path.is_file():
        raise ImportRefused(_("There is no file %(path)s.") % {"path": path})
    return path
