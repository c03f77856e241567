"""The form that adds a webhook."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Project
from modelling.models import Webhook
from modelling.updater.webhooks import delivery, http_client


class WebhookForm(forms.ModelForm):
    """An address on an allowed host, and the events to send."""

    class Meta:
        model = Webhook
        fields = ["url", "on_version", "on_goal"]
        widgets = {"url": forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "spellcheck": "false"})}
        help_texts = {"url": gettext_lazy("An https address on an allowed host.")}

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if Webhook.objects.filter(project=self.project, url=url).exists():
            raise ValidationError(_("There is already a webhook to this address."))
        try:
            delivery.check_host_listed(url)
        except http_client.AddressRefused as refusal:
            raise ValidationError(_(str(refusal))) from None
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not (cleaned.get("on_version") or cleaned.get("on_goal")):
            raise ValidationError(_("Choose at least one event."))
        return cleaned
