"""Texts for workers: the Markdown that works, and attacks that stay harmless text."""

from html.parser import HTMLParser

import pytest

from annotation.templatetags.worker_texts import render_markdown, render_text
from tests.browser.judging.hostile_texts import TEXTS

TAGS = {"p", "br", "em", "strong", "a", "ul", "ol", "li", "h3", "blockquote", "code", "pre", "hr"}
ATTRIBUTES = {"a": {"href", "title", "target", "rel"}, "ol": {"start"}, "code": {"class"}}
ATTACKS = [
    *TEXTS,
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>*{display:none}</style>",
    "<!--<img src=--><img src=x onerror=alert(1)//>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php echo 1 ?>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](java&Tab;script:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](\\javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](<java\tscript:alert(1)>)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](data:image/png;base64,iVBORw0KGgo=)",
    "[x](vbscript:msgbox(1))",
    "[x](file:///etc/passwd)",
    "[x](blob:https://example.org/1)",
    "[x](//example.org)",
    "[x](/admin/)",
    "[x](https://example.org/\" onmouseover=\"alert(1))",
    "[x](https://example.org 'a\" onmouseover=\"alert(1)')",
    "[x](http://[::1)",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "![x](https://example.org/pixel.png)",
    "![x](javascript:alert(1))",
    "![x][y]\n\n[y]: https://example.org/pixel.png",
    "```\"><script>alert(1)</script>\nx\n```",
    "``` x\" onclick=\"alert(1)\nx\n```",
    "`<script>alert(1)</script>`",
    "# <script>alert(1)</script>",
    "> <img src=x onerror=alert(1)>",
    "- <b onclick=alert(1)>x</b>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u202e<script>alert(1)</script>",
    "**" * 5000,
    "[" * 5000,
    "> " * 5000,
]  # fmt: skip
FRAMES = ["{}", "**{}**", "- {}", "> {}", "[{}](https://example.org)", "text {}\nmore"]


class HarmlessParser(HTMLParser):
    """Collects every tag, attribute and link that is not allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [] if tag in TAGS else [tag]
        self.found += [f"{tag} {name}" for name, _ in attributes if name not in ATTRIBUTES.get(tag, set())]
        for name, value in attributes:
            if name == "href" and not str(value).startswith(("https://", "http://", "mailto:")):
                self.found.append(f"{name}={value}")

    def handle_comment(self, data: str) -> None:
        self.found.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def find_harm(html: str) -> list[str]:
    parser = HarmlessParser()
    parser.feed(html)
    parser.close()
    return parser.found


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_become_harmless_text(attack: str) -> None:
    for frame in FRAMES:
        text = frame.format(attack)
        assert find_harm(render_markdown(text)) == [], frame
        assert find_harm(render_text(text, plain=True)) == [], frame


def test_the_parser_of_this_test_finds_harm() -> None:
    page = '<p onclick="x"><img src="y"><a href="javascript:z">a</a></p><!-- b -->'
    assert find_harm(page) == ["p onclick", "img", "img src", "href=javascript:z", " b "]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold** and *italic*", "<p><strong>bold</strong> and <em>italic</em></p>\n"),
        ("one\ntwo\n\nthree", "<p>one<br />\ntwo</p>\n<p>three</p>\n"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"),
        ("### Title\n# Part", "<h3>Title</h3>\n<h3>Part</h3>\n"),
        ("a < b & c", "<p>a &lt; b &amp; c</p>\n"),
        (
            "[our page](https://example.org/a?b=c)",
            '<p><a href="https://example.org/a?b=c" target="_blank" rel="noopener noreferrer">our page</a></p>\n',
        ),
        (
            "<me@example.org>",
            '<p><a href="mailto:me@example.org" target="_blank" rel="noopener noreferrer">me@example.org</a></p>\n',
        ),
    ],
)
def test_markdown_is_rendered(text: str, html: str) -> None:
    assert render_markdown(text) == html


def test_plain_texts_keep_their_asterisks() -> None:
    assert render_text("**bold**\n<b>", plain=True) == "<p>**bold**<br>&lt;b&gt;</p>"
