"""OAuth over HTTP with curl: discovery, registration, consent, tokens; IMAP with the access token."""

import base64
import hashlib
import html
import json
import os
import re
import urllib.parse

from harness import ADA, PASSWORD, check, ensure, equal

SCOPE = "urn:ietf:params:oauth:scope:mail"
REDIRECT = "http://127.0.0.1:50001/back"


def curl(context, url, *arguments):
    return context.run("curl", "--silent", "--show-error", "--max-time", "30", *arguments, url).decode()


def post_form(context, url, fields):
    data = [part for name, value in fields.items() for part in ("--data-urlencode", f"{name}={value}")]
    return curl(context, url, *data)


def granted(context):
    """A client with the tokens of ADA's consent: metadata, client id, tokens."""
    url = context.ready["http"]["url"]
    metadata = json.loads(curl(context, f"{url}/.well-known/oauth-authorization-server"))
    equal(metadata["issuer"], url)
    registration = json.dumps({"redirect_uris": ["http://127.0.0.1/back"], "client_name": "curl", "scope": SCOPE})
    registered = curl(context, metadata["registration_endpoint"], "--header", "Content-Type: application/json", "--data", registration)
    client = json.loads(registered)["client_id"]
    verifier = base64.urlsafe_b64encode(os.urandom(48)).decode()
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    request = {"client_id": client, "redirect_uri": REDIRECT, "response_type": "code", "scope": SCOPE, "state": "s",
               "code_challenge": challenge, "code_challenge_method": "S256"}
    page = curl(context, f"{metadata['authorization_endpoint']}?{urllib.parse.urlencode(request)}")
    hidden = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page))
    fields = {name: html.unescape(value) for name, value in hidden.items()}
    fields |= {"username": ADA, "password": PASSWORD, "decision": "allow"}
    data = [part for name, value in fields.items() for part in ("--data-urlencode", f"{name}={value}")]
    location = curl(context, metadata["authorization_endpoint"], *data, "--output", "/dev/null", "--write-out", "%{redirect_url}")
    back = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(location).query))
    equal((back["state"], back["iss"]), ("s", url))
    tokens = post_form(context, metadata["token_endpoint"], {
        "grant_type": "authorization_code", "client_id": client, "redirect_uri": REDIRECT, "code": back["code"],
        "code_verifier": verifier})
    return metadata, client, json.loads(tokens)


@check("curl: OAuth from discovery to JMAP, and to revocation", "http", program="curl", sealpost_only=True)
def flow(context):
    metadata, client, tokens = granted(context)
    url = f"{context.ready['http']['url']}/jmap/session"
    session = curl(context, url, "--oauth2-bearer", tokens["access_token"])
    equal(json.loads(session)["username"], ADA)
    refresh = {"grant_type": "refresh_token", "client_id": client, "refresh_token": tokens["refresh_token"]}
    newer = json.loads(post_form(context, metadata["token_endpoint"], refresh))
    ensure(newer["refresh_token"] != tokens["refresh_token"], "the refresh token changes")
    post_form(context, metadata["revocation_endpoint"], {"client_id": client, "token": newer["refresh_token"]})
    for token in (tokens, newer):
        status = curl(context, url, "--oauth2-bearer", token["access_token"], "--output", "/dev/null", "--write-out", "%{http_code}")
        equal(status, "401")
