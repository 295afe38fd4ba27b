"""Client of RAMCloud: tables of objects in the memory of many servers.

    with ramcloud.Client("127.0.0.1:11100") as client:
        users = client.create_table("users")
        client.write(users, "alice", b"41")

Keys are 1 to 65,535 bytes, values 0 to 1,048,576; a str is taken as its UTF-8. Calls that can be
repeated without harm are, until their deadline. A write, remove or increment whose reply was lost
raises IndeterminateError: it may have happened.

Client waits for each answer and may be used by many threads. AsyncClient is for asyncio.
"""

from .aio import AsyncClient
from .client import Client
from .errors import (
    CancelledError,
    DeadlineExceededError,
    ErrorCode,
    ExistsError,
    IndeterminateError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    RamcloudError,
    UnavailableError,
    WrongVersionError,
)
from .types import Conditions, MultiKey, MultiObject, Object, Sum, Table

__all__ = [
    "AsyncClient",
    "CancelledError",
    "Client",
    "Conditions",
    "DeadlineExceededError",
    "ErrorCode",
    "ExistsError",
    "IndeterminateError",
    "InvalidArgumentError",
    "MultiKey",
    "MultiObject",
    "NotFoundError",
    "Object",
    "OutOfMemoryError",
    "RamcloudError",
    "Sum",
    "Table",
    "UnavailableError",
    "WrongVersionError",
]
