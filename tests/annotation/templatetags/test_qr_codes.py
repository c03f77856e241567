"""QR codes of addresses."""

from annotation.templatetags.qr_codes import qr_code


def test_a_qr_code_is_an_image_with_a_name_and_without_inline_styles() -> None:
    drawing = qr_code("https://concord.example.org/s/pets/", 'Link "pets"')
    assert 'role="img" aria-label="Link &quot;pets&quot;"' in drawing
    assert "<svg" in drawing
    assert "style" not in drawing
    assert "concord.example.org" not in drawing
