"""What an address asks for, read so that nothing in it can be wrong: what is unknown asks for the plain page."""

from django.http import QueryDict

LONGEST = 200
DIGITS = 5  # of a page's number


def page_number(query: QueryDict) -> int:
    given = query.get("page", "1")
    return int(given) if given.isdecimal() and len(given) <= DIGITS else 1


def words_in(query: QueryDict, name: str) -> str:
    return query.get(name, "").replace("\0", "").strip()[:LONGEST]
