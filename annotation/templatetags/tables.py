"""Tables that scroll sideways on narrow screens, and headings and terms with explanations."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_block_tag
def scroll_table(content: str, *, classes: str = "", label: str = "", labelledby: str = "") -> SafeString:
    """Wrap rows in a table that keyboard users can scroll; `label` or `labelledby` names it for screen readers."""
    region = SafeString()
    if label:
        region = format_html(' role="region" aria-label="{}"', label)
    elif labelledby:
        region = format_html(' role="region" aria-labelledby="{}"', labelledby)
    wrapper = '<div class="table-scroll" tabindex="0"{}><table class="{}">{}</table></div>'
    return format_html(wrapper, region, f"table {classes}".strip(), content)


@register.simple_tag
def heading(label: str, explanation: str, classes: str = "") -> SafeString:
    """A column heading whose explanation appears on hover and on focus."""
    return format_html('<th scope="col" class="{}">{}</th>', classes, hint(label, explanation))


@register.simple_tag
def hint(label: str, explanation: str) -> SafeString:
    """A term whose explanation appears on hover and on focus."""
    tip = format_html('<span class="tip" role="tooltip">{}</span>', explanation)
    return format_html('<span class="hint" tabindex="0">{}{}</span>', label, tip)
