"""Where a Delta table is: its path or its catalog name, and how SQL names it. Names are quoted here alone."""

from __future__ import annotations

from dataclasses import dataclass


def quoted(name: str) -> str:
    """A name as one quoted SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class TableRef:
    """A Delta table by path (the root holds a ``/``) or by catalog name; never one made from the other."""

    path: str | None = None
    name: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: str, topic: str, table: str) -> TableRef:
        """The table of a topic under a root: ``root/topic/table``, or ``root.topic_table`` when the root is a catalog schema."""
        if "/" in root:
            return cls(path=f"{root.rstrip('/') or '/'}/{topic}/{table}")
        prefix = "lakelog" if topic == "_lakelog" else topic
        return cls(name=(*root.split("."), f"{prefix}_{table}"))

    def sql(self) -> str:
        """The table as SQL names it, every part quoted."""
        if self.path is not None:
            return f"delta.{quoted(self.path)}"
        return ".".join(quoted(part) for part in self.name)

    def __str__(self) -> str:
        """The table as people write it."""
        return self.path if self.path is not None else ".".join(self.name)
