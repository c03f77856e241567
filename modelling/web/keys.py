"""Keys of items in tables with one line per row."""

from django import template

from modelling.dashboards.common.figures import shorten_key

register = template.Library()
register.filter("short_key", shorten_key)
