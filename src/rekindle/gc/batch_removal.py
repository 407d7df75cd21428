"""Files of batches that gc removes: what it says of them, and their removal after the audit log has it."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.gc.audit_log import AuditEntry, AuditLog
from rekindle.gc.collect_run import FILES, GcItem
from rekindle.gc.remover import Remover
from rekindle.storage.store import StoredObject

NAMES_IN_ENTRY = 1000


def batch_item(why: str, files: Sequence[StoredObject]) -> GcItem:
    return GcItem(
        what=FILES,
        why=why,
        files=len(files),
        bytes=sum(one.bytes for one in files),
        oldest_ms=round(min(one.modified for one in files) * 1000),
    )


def remove_batches(
    remover: Remover, diary: AuditLog, owner: str, why: str, files: Sequence[StoredObject], *, folder: str = ""
) -> None:
    """Remove files below a folder; `owner` is the stream or the target that has them."""
    for start in range(0, len(files), NAMES_IN_ENTRY):
        some = files[start : start + NAMES_IN_ENTRY]
        names = tuple(one.name for one in some)
        told = batch_item(why, some)
        diary.note(
            AuditEntry(
                run=owner,
                act="batches",
                why=why,
                files=told.files,
                bytes=told.bytes,
                oldest_ms=told.oldest_ms,
                folders=(folder,) if folder else (),
                names=names,
            )
        )
        remover.remove(folder, names)
