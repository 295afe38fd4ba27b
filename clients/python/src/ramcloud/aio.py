"""The client for asyncio: any number of calls at the same time, in the loop's own thread."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ._calls import Bytes, Call, Native, closed
from .errors import CancelledError, ErrorCode, RamcloudError
from .types import Conditions, MultiKey, MultiObject, Object, Sum, Table

T = TypeVar("T")


class AsyncClient:
    """As Client, for the event loop that is running when it is made. Cancelling a task cancels its call."""

    def __init__(self, cluster: str, timeout: float = 30.0) -> None:
        self._native = Native(cluster, timeout, poll=0)
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, tuple[Call[Any], asyncio.Future[Any]]] = {}  # by the library's pointer
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._fd = self._native.event_fd()
        self._loop.add_reader(self._fd, self._turn)

    async def close(self) -> None:
        """Ends all connections; calls that are left end with CancelledError. Calling it again does nothing."""
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        self._fd = -1
        if self._timer is not None:
            self._timer.cancel()
        for call, future in self._calls.values():
            if not future.done():
                future.set_exception(CancelledError(ErrorCode.CANCELLED, "the client was closed"))
            call.free()  # which cancels
        self._calls.clear()
        self._native.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _turn(self) -> None:
        """Does what is ready, and comes again when the next timer is due."""
        self._soon = False
        if self._fd < 0:
            return
        wait = 0.0
        try:
            wait = self._native.poll()
            while (pointer := self._native.next_done()) is not None:
                self._end(*self._calls.pop(pointer))
        finally:  # the other calls go on, whatever was raised
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(wait, self._turn)

    def _end(self, call: Call[Any], future: "asyncio.Future[Any]") -> None:
        """Gives the outcome of a call that is done to whoever waits for it."""
        try:
            result = call.take()
        except RamcloudError as error:
            if not future.done():
                future.set_exception(error)
        except Exception as error:
            if not future.done():
                failure = RamcloudError(ErrorCode.INTERNAL, f"the result cannot be taken: {error!r}")
                failure.__cause__ = error
                future.set_exception(failure)
        else:
            if not future.done():
                future.set_result(result)
        finally:
            call.free()

    async def _run(self, call: Call[T]) -> T:
        if self._fd < 0:  # close() has begun: this call will make no progress
            call.free()
            raise closed()
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls[call.pointer] = (call, future)
        if not self._soon:  # one poll for all calls that start now
            self._soon = True
            self._loop.call_soon(self._turn)
        try:
            return await future
        except asyncio.CancelledError:  # the task, not the call
            if self._calls.pop(call.pointer, None) is not None:
                call.free()  # which cancels
            raise

    async def create_table(self, name: str, span: int = 1, *, timeout: float | None = None) -> Table:
        return await self._run(self._native.create_table(name, span, timeout))

    async def open_table(self, name: str, *, timeout: float | None = None) -> Table:
        return await self._run(self._native.open_table(name, timeout))

    async def drop_table(self, name: str, *, timeout: float | None = None) -> None:
        await self._run(self._native.drop_table(name, timeout))

    async def list_tables(self, *, timeout: float | None = None) -> list[Table]:
        return await self._run(self._native.list_tables(timeout))

    async def read(
        self, table: Table | int, key: Bytes, conditions: Conditions | None = None, *, timeout: float | None = None
    ) -> Object:
        return await self._run(self._native.read(table, key, conditions, timeout))

    async def write(
        self,
        table: Table | int,
        key: Bytes,
        value: Bytes,
        conditions: Conditions | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        return await self._run(self._native.write(table, key, value, conditions, timeout))

    async def remove(
        self, table: Table | int, key: Bytes, conditions: Conditions | None = None, *, timeout: float | None = None
    ) -> int:
        return await self._run(self._native.remove(table, key, conditions, timeout))

    async def increment(
        self,
        table: Table | int,
        key: Bytes,
        delta: int = 1,
        conditions: Conditions | None = None,
        *,
        timeout: float | None = None,
    ) -> Sum[int]:
        return await self._run(self._native.increment(table, key, delta, conditions, timeout))

    async def increment_double(
        self,
        table: Table | int,
        key: Bytes,
        delta: float,
        conditions: Conditions | None = None,
        *,
        timeout: float | None = None,
    ) -> Sum[float]:
        return await self._run(self._native.increment_double(table, key, delta, conditions, timeout))

    async def multi_read(
        self, keys: Sequence[MultiKey], *, timeout: float | None = None
    ) -> list[Object | RamcloudError]:
        return await self._run(self._native.multi_read(keys, timeout))

    async def multi_write(
        self, objects: Sequence[MultiObject], *, timeout: float | None = None
    ) -> list[int | RamcloudError]:
        return await self._run(self._native.multi_write(objects, timeout))

    async def multi_remove(
        self, keys: Sequence[MultiKey], *, timeout: float | None = None
    ) -> list[int | RamcloudError]:
        return await self._run(self._native.multi_remove(keys, timeout))

    async def scan(
        self, table: Table | int, *, keys_only: bool = False, timeout: float | None = None
    ) -> AsyncIterator[Object]:
        scan = self._native.scan(table, keys_only)
        try:
            while page := await self._run(scan.next_page(timeout)):
                for found in page:
                    yield found
        finally:
            scan.end()
