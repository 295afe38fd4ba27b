"""The client that waits."""

import select
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from ._calls import Bytes, Call, Native
from .errors import RamcloudError
from .types import Conditions, MultiKey, MultiObject, Object, Sum, Table

T = TypeVar("T")


class Client:
    """A connection to a cluster. Calls of several threads go one after the other.

    `cluster` is "host:port[,host:port…]", the coordinators' addresses; nothing is sent yet.
    `timeout` is that of each call in seconds, its retries together (math.inf: for ever); each call
    can have one of its own.
    """

    def __init__(self, cluster: str, timeout: float = 30.0) -> None:
        self._native = Native(cluster, timeout, poll=0)
        self._lock = threading.Lock()
        self._ready = select.poll()
        self._ready.register(self._native.event_fd(), select.POLLIN)

    def close(self) -> None:
        """Ends all connections. Calling it again does nothing."""
        with self._lock:
            self._native.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, start: Callable[[], Call[T]]) -> T:
        with self._lock:
            call = start()
            try:
                # Not ramcloud_wait: between the waits Python sees signals, so Ctrl-C works.
                while not call.done():
                    wait = self._native.poll()
                    if not call.done():
                        self._ready.poll(wait * 1000)
                return call.take()
            finally:
                call.free()

    def create_table(self, name: str, span: int = 1, *, timeout: float | None = None) -> Table:
        """Creates a table cut over `span` servers; one that exists with this span is returned as it is."""
        return self._run(lambda: self._native.create_table(name, span, timeout))

    def open_table(self, name: str, *, timeout: float | None = None) -> Table:
        """NotFoundError if there is none."""
        return self._run(lambda: self._native.open_table(name, timeout))

    def drop_table(self, name: str, *, timeout: float | None = None) -> None:
        """Drops the table with its data."""
        self._run(lambda: self._native.drop_table(name, timeout))

    def list_tables(self, *, timeout: float | None = None) -> list[Table]:
        """Ordered by id."""
        return self._run(lambda: self._native.list_tables(timeout))

    def read(
        self, table: Table | int, key: Bytes, conditions: Conditions | None = None, *, timeout: float | None = None
    ) -> Object:
        """NotFoundError if there is none."""
        return self._run(lambda: self._native.read(table, key, conditions, timeout))

    def write(
        self,
        table: Table | int,
        key: Bytes,
        value: Bytes,
        conditions: Conditions | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Gives the new version."""
        return self._run(lambda: self._native.write(table, key, value, conditions, timeout))

    def remove(
        self, table: Table | int, key: Bytes, conditions: Conditions | None = None, *, timeout: float | None = None
    ) -> int:
        """Gives the version of what was removed; 0 if there was nothing."""
        return self._run(lambda: self._native.remove(table, key, conditions, timeout))

    def increment(
        self,
        table: Table | int,
        key: Bytes,
        delta: int = 1,
        conditions: Conditions | None = None,
        *,
        timeout: float | None = None,
    ) -> Sum[int]:
        """Adds to an integer of 8 bytes, little-endian, which wraps round; absent counts as 0."""
        return self._run(lambda: self._native.increment(table, key, delta, conditions, timeout))

    def increment_double(
        self,
        table: Table | int,
        key: Bytes,
        delta: float,
        conditions: Conditions | None = None,
        *,
        timeout: float | None = None,
    ) -> Sum[float]:
        """Adds to a double of 8 bytes, little-endian; absent counts as 0."""
        return self._run(lambda: self._native.increment_double(table, key, delta, conditions, timeout))

    def multi_read(
        self, keys: Sequence[MultiKey], *, timeout: float | None = None
    ) -> list[Object | RamcloudError]:
        """Many at once: each outcome at its key's place, an error as an object."""
        return self._run(lambda: self._native.multi_read(keys, timeout))

    def multi_write(
        self, objects: Sequence[MultiObject], *, timeout: float | None = None
    ) -> list[int | RamcloudError]:
        """Many at once; nothing is atomic across them. Of several with one key the last takes effect last."""
        return self._run(lambda: self._native.multi_write(objects, timeout))

    def multi_remove(
        self, keys: Sequence[MultiKey], *, timeout: float | None = None
    ) -> list[int | RamcloudError]:
        return self._run(lambda: self._native.multi_remove(keys, timeout))

    def scan(
        self, table: Table | int, *, keys_only: bool = False, timeout: float | None = None
    ) -> Iterator[Object]:
        """All objects, in no particular order. An object that exists throughout comes exactly once."""
        with self._lock:  # the client may be closed by another thread
            scan = self._native.scan(table, keys_only)
        try:
            while page := self._run(lambda: scan.next_page(timeout)):
                yield from page
        finally:
            scan.end()
