"""Errors of backups, each one sentence for a person, and what to do."""

from admin.faults import AdminError


class BackupError(AdminError):
    """A backup cannot be made, read or restored; nothing that was there has been changed."""


class BackupDamaged(BackupError):
    """A stored backup lacks a file, or a file does not hold what the manifest says."""
