"""Feature extraction: texts and questionnaire answers become vectors."""

from .item_kernels import default_item_kernel
from .text import TextFeatures

__all__ = ["TextFeatures", "default_item_kernel"]
