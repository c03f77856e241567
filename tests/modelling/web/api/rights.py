"""Access table of the API: one row per operation, one status per kind of token."""

TOKENS = ["none", "cookie", "junk", "stranger", "viewer", "analyst", "owner", "reader", "elsewhere", "staff"]
DOCUMENTS = ["api/v1/", "api/v1/openapi.json"]  # public

# In the order of TOKENS: no token, a session cookie, an invalid token; a member of another project; the three roles;
# the owner's read-only token and the owner's token for another project; staff.
REFUSED = [401, 401, 401]
MEMBERS = [*REFUSED, 404, 200, 200, 200, 200, 404, 200]
ANALYSTS = [*REFUSED, 404, 403, 200, 200, 200, 404, 200]
WRITERS = [*REFUSED, 404, 403, 200, 200, 403, 404, 200]
OWNERS = [*REFUSED, 404, 403, 403, 200, 403, 404, 200]
PROJECT = "api/v1/projects/<slug>"

API: dict[tuple[str, str], list[int]] = {
    ("GET", "api/v1/projects"): [*REFUSED, 200, 200, 200, 200, 200, 200, 200],
    ("POST", "api/v1/projects"): [*REFUSED, 200, 200, 200, 200, 403, 403, 200],
    ("GET", PROJECT): MEMBERS,
    ("PATCH", PROJECT): OWNERS,
    ("GET", f"{PROJECT}/items"): MEMBERS,
    ("POST", f"{PROJECT}/items"): WRITERS,
    ("GET", f"{PROJECT}/items/<item_id>"): MEMBERS,
    ("GET", f"{PROJECT}/workers"): MEMBERS,
    ("POST", f"{PROJECT}/workers"): WRITERS,
    ("GET", f"{PROJECT}/workers/<code>"): MEMBERS,
    ("POST", f"{PROJECT}/workers/<code>/pairs"): WRITERS,
    ("GET", f"{PROJECT}/judgements"): ANALYSTS,
    ("POST", f"{PROJECT}/judgements"): WRITERS,
    ("POST", f"{PROJECT}/judgements/import"): WRITERS,
    ("GET", f"{PROJECT}/judgements/<judgement>"): ANALYSTS,
    ("POST", f"{PROJECT}/retractions"): WRITERS,
    ("GET", f"{PROJECT}/snapshots"): MEMBERS,
    ("GET", f"{PROJECT}/snapshots/<number>"): MEMBERS,
    ("GET", f"{PROJECT}/ranking"): MEMBERS,
    ("POST", f"{PROJECT}/predict"): MEMBERS,
    ("GET", f"{PROJECT}/suggestions"): MEMBERS,
    ("PUT", f"{PROJECT}/suggestions"): WRITERS,
    ("GET", f"{PROJECT}/exports"): ANALYSTS,
    ("POST", f"{PROJECT}/exports"): WRITERS,
    ("GET", f"{PROJECT}/exports/files/<number>"): [404 if status == 200 else status for status in ANALYSTS],
    ("GET", f"{PROJECT}/exports/files/<number>/content"): [404 if status == 200 else status for status in ANALYSTS],
    ("GET", f"{PROJECT}/exports/<what>.<format>"): ANALYSTS,
}
