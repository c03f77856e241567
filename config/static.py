"""Static files under names that carry a hash of their content."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticFiles(CompressedManifestStaticFilesStorage):
    """Scripts import each other by hashed names too, so that a new release never mixes old and new modules."""

    support_js_module_import_aggregation = True
    manifest_strict = False  # before `collectstatic` has run a page without style is better than no page
