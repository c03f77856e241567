"""The texts that researchers write for workers: Markdown without HTML and images, or plain text."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from django import template
from django.utils.html import linebreaks
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from annotation.models import Project
from annotation.models.arms import Design

register = template.Library()

LINK_SCHEMES = {"http", "https", "mailto"}


class WorkerMarkdown(MarkdownIt):
    """CommonMark that keeps line breaks. HTML is shown as text; images are not supported."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "breaks": True})
        self.disable(["html_block", "html_inline", "image"])

    def validateLink(self, url: str) -> bool:  # noqa: N802, the name in markdown-it
        """Accept only links to other pages and email addresses; others are shown as text."""
        try:
            return urlsplit(url).scheme.lower() in LINK_SCHEMES
        except ValueError:
            return False


MARKDOWN = WorkerMarkdown()


def render_markdown(text: str, heading: int = 3) -> SafeString:
    """Render a text to HTML. All headings get the same level, below the page's own, because texts are short."""
    tokens = MARKDOWN.parse(text)
    _adapt(tokens, heading)
    return mark_safe(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}))  # noqa: S308, HTML is escaped


def _adapt(tokens: Sequence[Token], heading: int) -> None:
    """Open links in a new tab, and set the level of headings."""
    for token in tokens:
        if token.type == "link_open":
            token.attrs |= {"target": "_blank", "rel": "noopener noreferrer"}
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{heading}"
        _adapt(token.children or [], heading)


def render_text(text: str, *, plain: bool, heading: int = 3) -> SafeString:
    """Render a text for workers; plain texts only get paragraphs and line breaks."""
    return mark_safe(linebreaks(text, autoescape=True)) if plain else render_markdown(text, heading)  # noqa: S308


@register.simple_tag
def worker_text(source: Project | Design, name: str, heading: int = 3) -> SafeString:
    """Render one of the texts from a project or a worker's design, such as the instructions."""
    return render_text(getattr(source, name), plain=name in source.plain_texts, heading=heading)
