"""What goes in and comes out."""

import dataclasses
from typing import Generic, TypeVar

N = TypeVar("N", int, float)


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    id: int
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Object:
    key: bytes
    value: bytes
    version: int  # rises with every change of the key, also across remove and re-creation


@dataclasses.dataclass(frozen=True, slots=True)
class Sum(Generic[N]):
    """What an increment gives."""

    value: N
    version: int


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """When a call shall fail instead of taking effect."""

    if_absent_fail: bool = False  # NotFoundError when there is no object
    if_exists_fail: bool = False  # ExistsError when there is one
    only_version: int = 0  # not 0: WrongVersionError unless the object has this version
    only_newer_than: int = 0  # not 0: WrongVersionError if the object's version is <= this


@dataclasses.dataclass(frozen=True, slots=True)
class MultiKey:
    """One operation of a multi-read or multi-remove."""

    table: "Table | int"
    key: bytes | str
    conditions: Conditions | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MultiObject:
    """One operation of a multi-write."""

    table: "Table | int"
    key: bytes | str
    value: bytes | str
    conditions: Conditions | None = None
