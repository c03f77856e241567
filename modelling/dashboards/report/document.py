"""The report as one HTML file: no scripts, no requests, figures as SVG, styles for screen and paper."""

from base64 import b64encode
from hashlib import sha256

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import get_language, get_language_bidi, override

from modelling.dashboards.common.figures import Figure
from modelling.dashboards.report.facts import build_report
from modelling.dashboards.report.svg import draw
from modelling.models import ModelSnapshot


def render_report(snapshot: ModelSnapshot, language: str = "") -> str:
    """The report of a version in this language, or in the current one."""
    with override(language or get_language()):
        report = build_report(snapshot)
        style = render_to_string("modelling/report/report.css")
        figures = [*report.ranking.figures, *report.components.figures]
        context = {
            "report": report,
            "project": report.project,
            "snapshot": snapshot,
            "style": SafeString(style),
            "policy": content_security_policy(style),
            "figures": {figure.name: draw_figure(figure) for figure in figures},
            "parts": [(part, part.figure and draw_figure(part.figure)) for part in report.parts],
            "language": get_language(),
            "direction": "rtl" if get_language_bidi() else "ltr",
        }
        return render_to_string("modelling/report/report.html", context).lstrip()


def content_security_policy(style: str) -> str:
    """Forbid everything but this style sheet, even when the file is opened locally."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def draw_figure(figure: Figure) -> dict[str, str]:
    return {"title": figure.title, "svg": draw(figure)}
