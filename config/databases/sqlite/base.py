"""SQLite that notices when its file was removed or replaced while the server runs.

On Linux a process can go on writing to a deleted file; everything would be acknowledged and lost. The path is compared
with the open file before every commit and at the start and end of every request, which costs a microsecond.
"""

import os
from typing import Any

from django.db.backends.sqlite3 import base

FileId = tuple[int, int]  # device and inode

_known_files: set[str] = set()  # files that this process has opened; if one disappears, it is not recreated


class DatabaseWrapper(base.DatabaseWrapper):
    file_id: FileId | None = None  # the open file's; None for an in-memory database
    lock_seconds: float | None = None  # how long a write waits for another process; None uses the settings

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        path = str(conn_params["database"])
        if path in _known_files and not os.path.exists(path):
            raise self._removed()
        if self.lock_seconds is not None:
            conn_params = {**conn_params, "timeout": self.lock_seconds}
        connection = super().get_new_connection(conn_params)
        self.file_id = None if self.is_in_memory_db() else _file_id(path)
        if self.file_id is not None:
            _known_files.add(path)
        return connection

    def _commit(self) -> None:
        if not self._file_is_current():
            raise self._removed()
        super()._commit()  # type: ignore[misc]

    def close_if_unusable_or_obsolete(self) -> None:
        if self.connection is not None and not self.in_atomic_block and not self._file_is_current():
            self.close()
        super().close_if_unusable_or_obsolete()

    def _file_is_current(self) -> bool:
        return self.file_id is None or _file_id(str(self.settings_dict["NAME"])) == self.file_id

    def _removed(self) -> Exception:
        error: Exception = self.Database.OperationalError("the database file was removed or replaced")
        return error


def _file_id(path: str) -> FileId | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
