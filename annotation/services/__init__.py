"""The writes. Each is one short transaction, keyword-only, and leaves the log and the audit in order."""

from annotation.services.copying import copy_project
from annotation.services.deletion import archive_project, delete_project
from annotation.services.erasure import erase_worker
from annotation.services.invitations import accept, accept_with_new_account, find_invitation, invite, withdraw
from annotation.services.judging import Receipt, record_judgement, retract, to_canonical
from annotation.services.leasing import add_load, enrol, enrol_once, lease_pairs
from annotation.services.projects import audit, change_project, create_project, set_membership
from annotation.services.suggesting import replace_suggestions

__all__ = [
    "Receipt",
    "accept",
    "accept_with_new_account",
    "add_load",
    "archive_project",
    "audit",
    "change_project",
    "copy_project",
    "create_project",
    "delete_project",
    "enrol",
    "enrol_once",
    "erase_worker",
    "find_invitation",
    "invite",
    "lease_pairs",
    "record_judgement",
    "replace_suggestions",
    "retract",
    "set_membership",
    "to_canonical",
    "withdraw",
]
