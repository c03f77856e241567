"""Services: all of the app's writes, each a short transaction with keyword-only arguments."""

from annotation.services.deletion import archive_project, delete_project
from annotation.services.exclusion import exclude_worker, include_worker, suspend_worker
from annotation.services.invitations import accept, accept_with_new_account, find_invitation, invite, withdraw
from annotation.services.judging import Receipt, record_judgement, retract, to_canonical
from annotation.services.pairs.leasing import add_load, lease_pairs
from annotation.services.pairs.selection import replace_suggestions, write_suggestions
from annotation.services.participation.enrolment import (
    continue_judging,
    digest_return_code,
    enrol,
    enrol_once,
    find_returning_worker,
    get_return_code,
    stop_early,
)
from annotation.services.privacy.erasure import erase_worker
from annotation.services.projects import audit, change_project, copy_project, create_project, set_membership

__all__ = [
    "Receipt",
    "accept",
    "accept_with_new_account",
    "add_load",
    "archive_project",
    "audit",
    "change_project",
    "continue_judging",
    "copy_project",
    "create_project",
    "delete_project",
    "digest_return_code",
    "enrol",
    "enrol_once",
    "erase_worker",
    "exclude_worker",
    "find_invitation",
    "find_returning_worker",
    "get_return_code",
    "include_worker",
    "invite",
    "lease_pairs",
    "record_judgement",
    "replace_suggestions",
    "retract",
    "set_membership",
    "stop_early",
    "suspend_worker",
    "to_canonical",
    "withdraw",
    "write_suggestions",
]
