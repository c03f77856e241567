"""Uncertainty on pages: always the half width of a 95 % interval, never a standard deviation."""

from django import template

from modelling.training.ranking import Z_95

register = template.Library()


@register.filter
def half_width(sd: float | None) -> float | None:
    """Half of the 95 % interval of a normal distribution with this standard deviation."""
    return None if sd is None else Z_95 * sd
