"""Prolific's signed links: a token that is forged, expired or about someone else is refused."""

import base64
import hmac
import json
import time
from hashlib import sha256
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.exceptions import ValidationError
from django.test import Client

from annotation.models import PlatformIdentity, Project, Worker
from annotation.platforms.signed_links import validate_jwks
from tests.annotation.platforms.studies import OTHER_PID, PID, SESSION, STUDY, join, link, recruit

pytestmark = pytest.mark.django_db
KEY, OTHER_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
PUBLIC = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
JWK = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
JWKS = json.dumps({"keys": [JWK | {"kid": "k1", "alg": "RS256", "use": "sig"}]})
IDS = {"PROLIFIC_PID": PID, "STUDY_ID": STUDY, "SESSION_ID": SESSION, "workspace_id": "9e" * 12}
SEGMENT = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": "k1"}).encode()).decode().rstrip("=")


def token(key: Any = KEY, kid: str | None = "k1", algorithm: str = "RS256", **changes: Any) -> str:
    claims = {"aud": "testserver", "exp": time.time() + 600, "prolific": IDS} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid else None)


def hmac_with_public_key() -> str:
    """HS256 with the public key as secret, which PyJWT refuses to make itself."""

    def encode(part: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    claims = {"aud": "testserver", "exp": time.time() + 600, "prolific": IDS}
    signed = f"{encode({'alg': 'HS256', 'kid': 'k1'})}.{encode(claims)}"
    digest = hmac.new(PUBLIC, signed.encode(), sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@pytest.fixture
def signed_project(project: Project) -> Project:
    recruit(project, signed_links=True, jwks=JWKS)
    return project


def test_a_signed_link_makes_a_verified_worker(signed_project: Project, client: Client) -> None:
    join(client, link(signed_project, prolific_token=token()))
    assert PlatformIdentity.objects.get().verified is True


@pytest.mark.parametrize(
    "audience", ["https://testserver", "https://testserver/s/pets/?PROLIFIC_PID=5f", ["testserver"]]
)
def test_the_audience_may_be_the_host_or_the_address(signed_project: Project, client: Client, audience: Any) -> None:
    assert client.get(link(signed_project, prolific_token=token(aud=audience))).status_code == 200


def test_a_token_alone_says_who_arrives(signed_project: Project, client: Client) -> None:
    join(client, f"{signed_project.get_judging_url()}?prolific_token={token()}")
    stored = PlatformIdentity.objects.get()
    assert (stored.external_id, stored.study_id, stored.session_id, stored.verified) == (PID, STUDY, SESSION, True)


BAD_TOKENS = {
    "missing": lambda: "",
    "no algorithm": lambda: f"{SEGMENT}.{token().split('.')[1]}.",
    "HS256 with the public key": hmac_with_public_key,
    "another key": lambda: token(OTHER_KEY),
    "unknown kid": lambda: token(kid="k2"),
    "no kid": lambda: token(kid=None),
    "expired": lambda: token(exp=time.time() - 600),
    "no expiry": lambda: token(exp=None),
    "another server": lambda: token(aud="evil.example"),
    "a host that only begins like ours": lambda: token(aud="https://testserver.evil.example/"),
    "our name in the path": lambda: token(aud="https://evil.example/testserver"),
    "an audience that is no address": lambda: token(aud=["https://[testserver", 7]),
    "no audience": lambda: token(aud=None),
    "another study": lambda: token(prolific=IDS | {"STUDY_ID": "0" * 24}),
    "another participant": lambda: token(prolific=IDS | {"PROLIFIC_PID": OTHER_PID}),
    "no ids": lambda: token(prolific=None),
    "an id that is no text": lambda: token(prolific=IDS | {"SESSION_ID": 8}),
    "changed signature": lambda: token()[:-8] + "AAAAAAAA",
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_forged_or_expired_token_is_refused_without_a_row(signed_project: Project, client: Client, name: str) -> None:
    response = client.get(link(signed_project, prolific_token=BAD_TOKENS[name]()))
    assert response.status_code == 403
    assert not Worker.objects.exists()


def test_a_token_that_is_used_again_makes_no_second_worker(signed_project: Project, client: Client) -> None:
    address = link(signed_project, prolific_token=token())
    join(client, address)
    assert Client().get(address).url == "/s/pets/", "the same participant on another device"
    assert Worker.objects.count() == PlatformIdentity.objects.count() == 1


def test_a_link_without_a_token_is_refused(signed_project: Project, client: Client) -> None:
    assert client.get(link(signed_project)).status_code == 403


def test_a_refused_link_warns_the_researcher(signed_project: Project, client: Client, admin_client: Client) -> None:
    page = "/projects/pets/recruitment/"
    assert "could not be verified" not in admin_client.get(page).content.decode()
    client.get(link(signed_project, prolific_token=token(kid="a new key")))
    assert "paste Prolific's public keys again" in admin_client.get(page).content.decode()


@pytest.mark.parametrize("text", ["{}", '{"keys": []}', "no json", '{"keys": [{"kty": "oct", "kid": "a", "k": "x"}]}'])
def test_a_key_set_without_public_rsa_keys_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        validate_jwks(text)


def test_a_private_key_is_refused() -> None:
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY)) | {"kid": "k1"}
    with pytest.raises(ValidationError):
        validate_jwks(json.dumps({"keys": [private]}))
