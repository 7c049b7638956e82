"""The lock of a directory that one process uses at a time."""

import fcntl
import os
from pathlib import Path

LOCK = "lock"
"""The locked file, in the directory."""


class FolderLock:
    """A lock of one directory, held until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        """Prepare the lock; `take` locks the directory."""
        self._folder = folder
        self._file = -1

    def take(self) -> bool:
        """Lock the directory; False if another process has locked it.

        Raises:
            OSError: the directory cannot be used.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._folder / LOCK, flags, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        self.check()
        return True

    def check(self) -> None:
        """Refuse a directory that has replaced the locked directory, as another server may use it.

        Raises:
            OSError: the directory was removed or replaced; nothing may be written.
        """
        try:
            is_ours = os.path.samestat(os.fstat(self._file), os.lstat(self._folder / LOCK))
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise OSError(
                f"{self._folder} was removed or replaced since this server locked it, and may belong "
                "to another one now: put it back, or restart this server"
            )

    def release(self) -> None:
        """Unlock the directory."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
